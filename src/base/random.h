// A random source that yields the same sequence on every platform and compiler, unlike the
// distributions of <random>: xoshiro256++ seeded through splitmix64.
#pragma once

#include <array>
#include <cstdint>

namespace rubato {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next() {
    const std::uint64_t result = rotl(s_[0] + s_[3], 23) + s_[0];
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, n); n must be positive. The bias is below 2^-32 for the n we use.
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32);
  }
  // Uniform in [low, high], both included.
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool chance(double probability) { return uniform() < probability; }
  double exponential(double mean);
  double normal();  // mean 0, standard deviation 1
  // The number of failed trials before the first success, at this probability (0 < p <= 1).
  std::uint32_t geometric(double probability);
  // An independent generator, for code that must not disturb this generator's sequence.
  Random fork();

 private:
  static std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::array<std::uint64_t, 4> s_{};
};

}  // namespace rubato
