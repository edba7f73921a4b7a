#include "model/batch.h"

#include <algorithm>

namespace rubato {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BatchShape split_batch(std::int64_t total, int devices, const BatchLimits& limits,
                       bool accumulate_alone) {
  const std::int64_t local = ceil_div(total, devices);
  std::int64_t accumulation = ceil_div(local, limits.max_local) - 1;
  if (accumulate_alone && devices == 1 && total > limits.initial) {
    accumulation = std::max<std::int64_t>(1, accumulation);
  }
  const std::int64_t largest = limits.max / (devices * (accumulation + 1));
  return {.local = std::min(ceil_div(local, accumulation + 1), largest),
          .accumulation = static_cast<int>(accumulation)};
}

}  // namespace rubato
