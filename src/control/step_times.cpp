#include "control/step_times.h"

#include <vector>

#include "base/stats.h"

namespace rubato::control {

void StepTimes::note(std::int64_t step, int workers, Seconds step_s) {
  if (step_s <= 0 || workers < 1 || step == step_) return;
  if (workers != workers_) reports_.clear();
  step_ = step;
  workers_ = workers;
  reports_.push_back(step_s);
  if (reports_.size() > kMost) reports_.pop_front();
}

std::optional<StepSpread> StepTimes::spread() const {
  if (reports_.size() < kFewest) return std::nullopt;
  const std::vector<double> sorted =
      sorted_copy(std::vector<double>(reports_.begin(), reports_.end()));
  const double middle = percentile_sorted(sorted, 50);
  return StepSpread{.low = percentile_sorted(sorted, 10) / middle,
                    .high = percentile_sorted(sorted, 90) / middle};
}

}  // namespace rubato::control
