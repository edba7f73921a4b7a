#include "base/random.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace rubato {

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : s_) {
    seed += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    word = z ^ (z >> 31);
  }
}

double Random::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::uint32_t Random::geometric(double probability) {
  if (probability >= 1.0) return 0;
  const double skipped = std::floor(std::log1p(-uniform()) / std::log1p(-probability));
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  return skipped >= kMost ? std::numeric_limits<std::uint32_t>::max()
                          : static_cast<std::uint32_t>(skipped);
}

Random Random::fork() { return Random(next()); }

}  // namespace rubato
