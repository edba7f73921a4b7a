// Element-wise sums of float arrays, the inner loops of the reduction. Internal to this layer.
//
// Every element is computed by the same IEEE additions, followed by at most one multiplication. No
// product is added to anything, so a compiler cannot contract operations into a fused one, and the
// vector width cannot change a bit.
#pragma once

#include <cstddef>
#include <span>

namespace rubato::elastic {

// out[i] = sum of inputs[k][i] for 0 <= i < count. `out` may be one of the 1 to 4 inputs. The order
// of additions: ((a + b) + c) for three, ((a + b) + (c + d)) for four.
void sum_arrays(std::span<const float* const> inputs, float* out, std::size_t count);
// The same, multiplied by `scale`.
void sum_arrays_scaled(std::span<const float* const> inputs, float scale, float* out,
                       std::size_t count);

}  // namespace rubato::elastic
