// Element-wise sums of float arrays, the inner loops of the reduction. Internal to this layer.
//
// Every element is computed by the same IEEE additions, then at most one multiplication; there is
// no product that is added to something, so no compiler can contract anything into a fused
// operation, and the width of the vectors cannot change a bit.
#pragma once

#include <cstddef>
#include <span>

namespace rubato::elastic {

// out[i] = sum of inputs[k][i] for 0 <= i < count. `out` may be one of the 1 to 4 inputs. The order
// of additions: ((a + b) + c) for three, ((a + b) + (c + d)) for four.
void sum_arrays(std::span<const float* const> inputs, float* out, std::size_t count);
// out[i] = scale * that sum.
void sum_arrays_scaled(std::span<const float* const> inputs, float scale, float* out,
                       std::size_t count);

}  // namespace rubato::elastic
