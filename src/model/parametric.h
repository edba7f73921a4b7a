// The parametric speed model of Pollux and its fit to measured step times by bounded minimisation.
//
//   T_grad = a_c + b_c m                     m: micro-batch of one device
//   T_sync = 0                               (one device)
//          | a_r + b_r max(K-2, 0)           (one node)
//          | a_n + b_n max(K-2, 0)           (several nodes)
//   T_step = (T_grad^g + T_sync^g)^(1/g)     1 <= g <= 10: overlap of computing and communicating
#pragma once

#include <array>
#include <span>

#include "model/speed.h"

namespace rubato {

struct PerfParams {
  double alpha_c = 0, beta_c = 0;  // computing: seconds, seconds per sample
  double alpha_n = 0,
         beta_n = 0;  // synchronising across nodes: seconds, seconds per further device
  double alpha_r = 0, beta_r = 0;  // synchronising within a node
  double gamma = 1;

  Seconds compute_s(double local) const { return alpha_c + beta_c * local; }
  Seconds sync_s(int nodes, int devices) const;
  Seconds step_s(int nodes, int devices, double local) const;
};

// One measured configuration.
struct Observation {
  DeviceTypeId type{};
  int nodes = 0;
  int devices = 0;
  std::int64_t local = 0;
  Seconds step_s = 0;
  Seconds sync_s = 0;
  int measurements = 1;  // that it rests on: more than one if it is an average
};

// Minimises the root mean squared logarithmic errors of T_grad and T_step (plus small priors: g
// near 1, b small relative to a). Terms that no observation informs are fixed at an optimistic
// value: with a single micro-batch size, half of T_grad is constant; without observations across
// nodes, a_n and b_n are 1.1 times a_r and b_r. The observations must not be empty and must be of
// one device type. Deterministic.
PerfParams fit(std::span<const Observation> observations);

// The objective that `fit` minimises (exposed for tests).
double fit_error(const PerfParams& params, std::span<const Observation> observations);

// A SpeedModel with given parameters, the same for every device type.
class ParametricSpeed final : public SpeedModel {
 public:
  explicit ParametricSpeed(PerfParams params) : params_(params) {}
  StepTime step_time(const Placement& placement, std::int64_t local) const override;
  const PerfParams& params() const { return params_; }

 private:
  PerfParams params_;
};

}  // namespace rubato
