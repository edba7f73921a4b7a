#include "model/job.h"

#include <algorithm>
#include <bit>

namespace rubato {

void JobSpec::round_to_sizes() {
  if (!power_of_two_sizes || mode == ElasticMode::kRigid || min_devices < 1) return;
  const auto floor = [](int n) {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  };
  const auto low = static_cast<int>(std::bit_ceil(static_cast<unsigned>(min_devices)));
  if (low > max_devices) return;
  min_devices = low;
  max_devices = floor(max_devices);
  requested_devices = std::clamp(floor(std::max(1, requested_devices)), min_devices, max_devices);
}

JobSpec::FixedUpdate JobSpec::fixed_update(int devices) const {
  if (logical_workers == 0) {
    const BatchShape shape = split_batch(requested_batch, devices, batch);
    return {.shape = shape, .batch = static_cast<double>(shape.total(devices))};
  }
  const int most = (logical_workers + devices - 1) / devices;  // logical workers on one device
  return {.shape = {.local = worker_batch(), .accumulation = most - 1},
          .batch = static_cast<double>(logical_workers * worker_batch())};
}

std::string_view to_string(ElasticMode mode) {
  switch (mode) {
    case ElasticMode::kConsistent:
      return "consistent";
    case ElasticMode::kAdaptive:
      return "adaptive";
    case ElasticMode::kRigid:
      return "rigid";
  }
  return "?";
}

std::optional<ElasticMode> parse_elastic_mode(std::string_view text) {
  for (const ElasticMode mode :
       {ElasticMode::kConsistent, ElasticMode::kAdaptive, ElasticMode::kRigid}) {
    if (text == to_string(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace rubato
