// Performance models: predict step times for a placement and a micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "model/batch.h"

namespace rubato {

// Where a job runs, as far as speed is concerned: devices on each of its nodes, all of one type.
class Placement {
 public:
  Placement() = default;
  Placement(DeviceTypeId type, std::vector<int> per_node);
  // `devices` on as few nodes of this size as possible; the last one may be partly filled.
  static Placement packed(DeviceTypeId type, int devices, int node_size);

  DeviceTypeId type() const { return type_; }
  std::span<const int> per_node() const { return per_node_; }
  int nodes() const { return static_cast<int>(per_node_.size()); }
  int devices() const { return devices_; }

 private:
  DeviceTypeId type_;
  std::vector<int> per_node_;
  int devices_ = 0;
};

// How much a prediction can be trusted.
enum class Confidence {
  kMeasured,      // exactly this configuration was measured
  kInterpolated,  // between measurements, or fitted to several
  kExtrapolated,  // outside the measured range
  kPrior,         // nothing was measured: an optimistic guess
};

// Seconds of one micro-batch with synchronisation. `sync_s` is the part spent in gradient
// synchronisation, so step_s - sync_s is the time without it.
struct StepTime {
  Seconds step_s = 0;
  Seconds sync_s = 0;
  Confidence confidence = Confidence::kPrior;

  // Seconds of one optimizer update of this shape.
  Seconds update_s(const BatchShape& shape) const {
    return step_s + shape.accumulation * (step_s - sync_s);
  }
};

// Predicts step times. Implementations are immutable or used by one thread.
class SpeedModel {
 public:
  virtual ~SpeedModel() = default;
  // `local` is the micro-batch of one device; models without batches ignore it.
  virtual StepTime step_time(const Placement& placement, std::int64_t local) const = 0;
};

}  // namespace rubato
