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

  // Adds a measurement and updates the noise. A configuration that is already known takes the new
  // value if that is an average of several measurements: then it is the better one. Another single
  // measurement changes nothing.
  void report(const Observation& observation, const GradientNoise& noise);
  // Forgets all measurements, which counts as a change: they were made with other batches.
  void restart(BatchLimits limits);

  // The same knowledge, without what was computed from it. Another thread may meanwhile ask this
  // model, but not change it.
  LearnedModel copy() const;

  bool empty() const { return max_profiled_devices_ == 0; }
  // The most devices in any report; 0 before the first.
  int max_profiled_devices() const { return max_profiled_devices_; }
  // Every configuration measured on this type, in order of the reports.
  std::span<const Observation> observations(DeviceTypeId type) const {
    return types_[type.index()].observations;
  }
  // Grows with every new and every changed observation; never shrinks.
  std::size_t revision() const { return revision_; }
  // Calls `tell` with the observations of a type that are new or have changed since an earlier
  // revision() (0: all), in the order of the first reports.
  template <typename Tell>
  void tell_since(std::size_t revision, DeviceTypeId type, Tell tell) const {
    const PerType& known = types_[type.index()];
    for (std::size_t i = 0; i < known.observations.size(); ++i) {
      if (known.revisions[i] > revision) tell(known.observations[i]);
    }
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
    std::vector<std::size_t> revisions;  // at which each of them last changed
    mutable std::optional<PerfParams> params;
    // Indexed by 2 * devices + (nodes > 1): nothing else about the placement affects the model.
    mutable std::vector<std::optional<BestBatch>> best;
  };
  const PerType& informed(DeviceTypeId type) const;

  BatchLimits limits_;
  GradientNoise noise_;
  int max_profiled_devices_ = 0;
  std::size_t revision_ = 0;
  std::array<PerType, kMaxDeviceTypes> types_;
};

}  // namespace rubato
