// What has been learned about one job from its live reports: a parametric model per device type,
// refitted after each new configuration, and its latest gradient noise.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/cluster.h"
#include "model/goodput.h"

namespace rubato {

class LearnedModel {
 public:
  explicit LearnedModel(BatchLimits limits) : limits_(limits) {}

  // Adds a measurement. A known configuration only updates the noise.
  void report(const Observation& observation, const GradientNoise& noise);

  bool empty() const { return max_profiled_devices_ == 0; }
  // The most devices in any report; 0 before the first.
  int max_profiled_devices() const { return max_profiled_devices_; }
  // Every configuration measured on this type, in order of the reports.
  std::span<const Observation> observations(DeviceTypeId type) const {
    return types_[type.index()].observations;
  }
  const GradientNoise& noise() const { return noise_; }
  const BatchLimits& limits() const { return limits_; }

  // Fitted parameters for this type, or those of another type if only others were measured. Must
  // not be called while empty(). Fits lazily.
  const PerfParams& params(DeviceTypeId type) const;
  // Best batch on (nodes, devices) with the current noise, memoised until a report changes
  // something.
  const BestBatch& best(DeviceTypeId type, int nodes, int devices) const;

 private:
  struct PerType {
    std::vector<Observation> observations;
    mutable std::optional<PerfParams> params;
    // Indexed by 2 * devices + (nodes > 1): nothing else about the placement affects the model.
    mutable std::vector<std::optional<BestBatch>> best;
  };
  const PerType& informed(DeviceTypeId type) const;

  BatchLimits limits_;
  GradientNoise noise_;
  int max_profiled_devices_ = 0;
  std::array<PerType, kMaxDeviceTypes> types_;
};

}  // namespace rubato
