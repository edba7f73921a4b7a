#include "model/scaling_law.h"

#include <cmath>

namespace rubato {

double ScalingLaw::speed(int devices) const { return std::pow(devices, exponent); }

StepTime RequestedDurationSpeed::step_time(const Placement& placement, std::int64_t) const {
  const int devices = placement.devices();
  const double step = law_.speed(requested_) / law_.speed(devices);
  const double efficiency = law_.speed(devices) / devices;
  return {.step_s = step,
          .sync_s = step * (1.0 - efficiency),
          .confidence = devices == requested_ ? Confidence::kMeasured : Confidence::kExtrapolated};
}

}  // namespace rubato
