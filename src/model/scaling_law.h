// "Duration at requested size": for traces that record only how long a job ran on how many devices.
// Its speed on another number of devices is a stated law, not a measurement.
#pragma once

#include "model/speed.h"

namespace rubato {

// speed(k) = k^exponent, relative to one device. Exponent 1 is perfect scaling; 0.9 gives 1.87x on
// two devices.
struct ScalingLaw {
  double exponent = 0.9;

  double speed(int devices) const;
};

// Work is counted in seconds at the requested size: a step is one such second.
class RequestedDurationSpeed final : public SpeedModel {
 public:
  RequestedDurationSpeed(int requested_devices, ScalingLaw law)
      : requested_(requested_devices), law_(law) {}

  // The time in excess of perfect scaling from one device counts as synchronisation.
  StepTime step_time(const Placement& placement, std::int64_t local) const override;

 private:
  int requested_;
  ScalingLaw law_;
};

}  // namespace rubato
