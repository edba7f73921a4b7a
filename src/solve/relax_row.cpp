#include "solve/relax_row.h"

#include <algorithm>
#include <cstring>

namespace rubato {

namespace {

// As many doubles as a register holds, as a vector type of GCC and clang. (Without it, they
// vectorise the wrong loop; with lanes wider than the registers, GCC does not vectorise at all.)
struct Narrow {  // any x86-64, and most others
  using Lanes [[gnu::vector_size(16)]] = double;
};
struct Wide {  // AVX2
  using Lanes [[gnu::vector_size(32)]] = double;
};

template <typename Lanes>
[[gnu::always_inline]] inline void load(Lanes& lanes, const double* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}
template <typename Lanes>
[[gnu::always_inline]] inline void take_less(Lanes& best, const double* from, const Lanes& loss) {
  Lanes other;
  load(other, from);
  other += loss;
  best = other < best ? other : best;
}
// Stores the lanes. True if any differs from `before`.
template <typename Lanes>
[[gnu::always_inline]] inline bool store(const Lanes& lanes, const double* before, double* to) {
  Lanes old;
  load(old, before);
  std::memcpy(to, &lanes, sizeof lanes);
  const auto differs = lanes != old;
  auto any = differs[0];
  for (std::size_t i = 1; i < sizeof(Lanes) / sizeof(double); ++i) any |= differs[i];
  return any != 0;
}

template <typename Width>
[[gnu::always_inline]] inline bool relax(const double* in, std::size_t width,
                                         std::span<const Move> moves, double* out) {
  using Lanes = typename Width::Lanes;
  constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(double);
  // A tile stays in registers while all moves pass over it.
  constexpr std::size_t kTile = 4 * kLanes;
  std::size_t begin = 0;
  bool changed = false;
  for (; begin + kTile <= width; begin += kTile) {
    const double* const old = in + begin;
    double* const to = out + begin;
    Lanes best0;
    Lanes best1;
    Lanes best2;
    Lanes best3;
    load(best0, old);
    load(best1, old + kLanes);
    load(best2, old + 2 * kLanes);
    load(best3, old + 3 * kLanes);
    for (const Move& move : moves) {
      const double* const from = old - move.delta;
      const Lanes loss = move.loss - Lanes{};
      take_less(best0, from, loss);
      take_less(best1, from + kLanes, loss);
      take_less(best2, from + 2 * kLanes, loss);
      take_less(best3, from + 3 * kLanes, loss);
    }
    changed |= store(best0, old, to);
    changed |= store(best1, old + kLanes, to + kLanes);
    changed |= store(best2, old + 2 * kLanes, to + 2 * kLanes);
    changed |= store(best3, old + 3 * kLanes, to + 3 * kLanes);
  }
  for (std::size_t i = begin; i < width; ++i) {
    double best = in[i];
    for (const Move& move : moves) best = std::min(best, *(in + i - move.delta) + move.loss);
    changed |= best != in[i];
    out[i] = best;
  }
  return changed;
}

#if defined(__x86_64__)
// Used if the processor supports it. The program itself is built for any x86-64.
[[gnu::target("avx2")]] bool relax_avx2(const double* in, std::size_t width,
                                        std::span<const Move> moves, double* out) {
  return relax<Wide>(in, width, moves, out);
}
#endif

}  // namespace

bool relax_row(const double* in, std::size_t width, std::span<const Move> moves, double* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) return relax_avx2(in, width, moves, out);
#endif
  return relax<Narrow>(in, width, moves, out);
}

}  // namespace rubato
