#include "solve/relax_row.h"

#include <algorithm>
#include <cstring>

namespace rubato {

namespace {

// Four doubles. (A type of GCC and clang, who split it up where registers are narrower. Left to
// themselves they vectorise the wrong loop.)
using Lanes [[gnu::vector_size(32)]] = double;
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(double);
// A tile stays in registers while all moves pass over it.
constexpr std::size_t kTile = 4 * kLanes;

[[gnu::always_inline]] inline void load(Lanes& lanes, const double* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}
[[gnu::always_inline]] inline void take_less(Lanes& best, const double* from, const Lanes& loss) {
  Lanes other;
  load(other, from);
  other += loss;
  best = other < best ? other : best;
}
// Stores the lanes; true if one differs from `old`.
[[gnu::always_inline]] inline bool store(const Lanes& lanes, const double* old, double* to) {
  Lanes before;
  load(before, old);
  std::memcpy(to, &lanes, sizeof lanes);
  const auto differs = lanes != before;
  return (differs[0] | differs[1] | differs[2] | differs[3]) != 0;
}

[[gnu::always_inline]] inline bool relax(const double* in, std::size_t width,
                                         std::span<const Move> moves, double* out) {
  std::size_t begin = 0;
  bool changed = false;
  for (; begin + kTile <= width; begin += kTile) {
    Lanes best0;
    Lanes best1;
    Lanes best2;
    Lanes best3;
    load(best0, in + begin);
    load(best1, in + begin + kLanes);
    load(best2, in + begin + 2 * kLanes);
    load(best3, in + begin + 3 * kLanes);
    for (const Move& move : moves) {
      const double* const from = in + begin - move.delta;
      const Lanes loss = {move.loss, move.loss, move.loss, move.loss};
      take_less(best0, from, loss);
      take_less(best1, from + kLanes, loss);
      take_less(best2, from + 2 * kLanes, loss);
      take_less(best3, from + 3 * kLanes, loss);
    }
    changed |= store(best0, in + begin, out + begin);
    changed |= store(best1, in + begin + kLanes, out + begin + kLanes);
    changed |= store(best2, in + begin + 2 * kLanes, out + begin + 2 * kLanes);
    changed |= store(best3, in + begin + 3 * kLanes, out + begin + 3 * kLanes);
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
// The program is built for any x86-64; this copy is used where the processor has wider registers.
[[gnu::target("avx2")]] bool relax_avx2(const double* in, std::size_t width,
                                        std::span<const Move> moves, double* out) {
  return relax(in, width, moves, out);
}
#endif

}  // namespace

bool relax_row(const double* in, std::size_t width, std::span<const Move> moves, double* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) return relax_avx2(in, width, moves, out);
#endif
  return relax(in, width, moves, out);
}

}  // namespace rubato
