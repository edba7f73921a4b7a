#include "solve/relax_row.h"

#include <algorithm>

namespace rubato {

namespace {

// A tile stays in the first-level cache (or in registers) while all moves pass over it.
constexpr std::size_t kTile = 32;

[[gnu::always_inline]] inline void relax(const double* in, std::size_t width,
                                         std::span<const Move> moves, double* __restrict out) {
  std::size_t begin = 0;
  for (; begin + kTile <= width; begin += kTile) {
    double best[kTile];
    for (std::size_t i = 0; i < kTile; ++i) best[i] = in[begin + i];
    for (const Move& move : moves) {
      const double* from = in + begin - move.delta;
      for (std::size_t i = 0; i < kTile; ++i) {
        const double loss = from[i] + move.loss;
        best[i] = loss < best[i] ? loss : best[i];
      }
    }
    for (std::size_t i = 0; i < kTile; ++i) out[begin + i] = best[i];
  }
  for (std::size_t i = begin; i < width; ++i) {
    double best = in[i];
    for (const Move& move : moves) {
      best = std::min(best, *(in + i - move.delta) + move.loss);
    }
    out[i] = best;
  }
}

#if defined(__x86_64__)
// The program is built for any x86-64; this copy is used where the processor has wider registers.
[[gnu::target("avx2")]] void relax_avx2(const double* in, std::size_t width,
                                        std::span<const Move> moves, double* out) {
  relax(in, width, moves, out);
}
#endif

}  // namespace

void relax_row(const double* in, std::size_t width, std::span<const Move> moves, double* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    relax_avx2(in, width, moves, out);
    return;
  }
#endif
  relax(in, width, moves, out);
}

}  // namespace rubato
