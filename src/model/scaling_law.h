// "Duration at requested size": traces that know nothing more than how long a job ran on how many
// devices. What it would have done on another number is a stated law, not knowledge.
#pragma once

#include "model/speed.h"

namespace rubato {

// speed(k) = k^exponent, relative to one device. Exponent 1 scales perfectly; 0.9 gives 1.87x on
// two devices.
struct ScalingLaw {
  double exponent = 0.9;

  double speed(int devices) const;
};

// Work in units of "seconds at the requested size": a step is one such second.
class RequestedDurationSpeed final : public SpeedModel {
 public:
  RequestedDurationSpeed(int requested_devices, ScalingLaw law)
      : requested_(requested_devices), law_(law) {}

  // The part beyond perfect scaling from one device counts as synchronisation.
  StepTime step_time(const Placement& placement, std::int64_t local) const override;

 private:
  int requested_;
  ScalingLaw law_;
};

}  // namespace rubato
