// The inner loop of the dynamic program of allocate.cpp. It has its own file because it is compiled
// with more optimisation than the rest.
#pragma once

#include <cstddef>
#include <span>

namespace rubato {

// One way to change a job: `delta` more units (fewer, if negative) at this loss.
struct Move {
  int delta = 0;
  double loss = 0;
};

// out[i] = min(in[i], min over the moves of in[i - delta] + loss) for i in [0, width). Every
// element of `in` used here must be readable; `in` and `out` must not overlap. The result does not
// depend on the processor: it uses only additions and comparisons. Returns whether any out[i] is
// below in[i].
bool relax_row(const double* in, std::size_t width, std::span<const Move> moves, double* out);

}  // namespace rubato
