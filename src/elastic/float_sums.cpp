#include "elastic/float_sums.h"

#include <cstring>

#include "base/check.h"

namespace rubato::elastic {

namespace {

// Compilers do not vectorise these loops by themselves when `out` may be an input; reading all
// inputs of a vector before writing it is right in that case too.
template <std::size_t kWidth, std::size_t kInputs, bool kScaled>
[[gnu::always_inline]] inline void sum_loop(const float* const* inputs, float scale, float* out,
                                            std::size_t count) {
  typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));
  const float* const a = inputs[0];
  const float* const b = kInputs > 1 ? inputs[1] : a;
  const float* const c = kInputs > 2 ? inputs[2] : a;
  const float* const d = kInputs > 3 ? inputs[3] : a;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Vector sum;
    Vector other;
    std::memcpy(&sum, a + i, sizeof sum);
    if constexpr (kInputs > 1) {
      std::memcpy(&other, b + i, sizeof other);
      sum += other;
    }
    if constexpr (kInputs > 2) {
      std::memcpy(&other, c + i, sizeof other);
      if constexpr (kInputs > 3) {
        Vector last;
        std::memcpy(&last, d + i, sizeof last);
        other += last;
      }
      sum += other;
    }
    if constexpr (kScaled) sum *= scale;
    std::memcpy(out + i, &sum, sizeof sum);
  }
  for (; i < count; ++i) {
    float sum = a[i];
    if constexpr (kInputs > 1) sum += b[i];
    if constexpr (kInputs == 3) sum += c[i];
    if constexpr (kInputs > 3) sum += c[i] + d[i];
    if constexpr (kScaled) sum *= scale;
    out[i] = sum;
  }
}

template <std::size_t kWidth, bool kScaled>
[[gnu::always_inline]] inline void sum_any(std::span<const float* const> inputs, float scale,
                                           float* out, std::size_t count) {
  switch (inputs.size()) {
    case 1:
      return sum_loop<kWidth, 1, kScaled>(inputs.data(), scale, out, count);
    case 2:
      return sum_loop<kWidth, 2, kScaled>(inputs.data(), scale, out, count);
    case 3:
      return sum_loop<kWidth, 3, kScaled>(inputs.data(), scale, out, count);
    case 4:
      return sum_loop<kWidth, 4, kScaled>(inputs.data(), scale, out, count);
    default:
      RUBATO_CHECK(false, "sums have 1 to 4 inputs");
  }
}

#if defined(__x86_64__)
// "avx2" does not switch on fused multiply-add.
[[gnu::target("avx2")]] void sum_avx2(std::span<const float* const> inputs, float* out,
                                      std::size_t count) {
  sum_any<8, false>(inputs, 1.0F, out, count);
}
[[gnu::target("avx2")]] void sum_scaled_avx2(std::span<const float* const> inputs, float scale,
                                             float* out, std::size_t count) {
  sum_any<8, true>(inputs, scale, out, count);
}
#endif

}  // namespace

void sum_arrays_portable(std::span<const float* const> inputs, float* out, std::size_t count) {
  sum_any<4, false>(inputs, 1.0F, out, count);
}

void sum_arrays_scaled_portable(std::span<const float* const> inputs, float scale, float* out,
                                std::size_t count) {
  sum_any<4, true>(inputs, scale, out, count);
}

void sum_arrays(std::span<const float* const> inputs, float* out, std::size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return sum_avx2(inputs, out, count);
#endif
  sum_arrays_portable(inputs, out, count);
}

void sum_arrays_scaled(std::span<const float* const> inputs, float scale, float* out,
                       std::size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return sum_scaled_avx2(inputs, scale, out, count);
#endif
  sum_arrays_scaled_portable(inputs, scale, out, count);
}

}  // namespace rubato::elastic
