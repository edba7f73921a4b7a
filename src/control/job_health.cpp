#include "control/job_health.h"

namespace rubato::control {

void ProgressWatch::started(double now) {
  *this = {};
  last_ = now;
}

bool ProgressWatch::report(std::int64_t step, int workers, Seconds step_s, double now) {
  if (step_s > 0) step_s_ = step_s;
  const bool stepped = step_ && *step_ != step;
  if (stepped && stepped_) longest_pause_ = std::max(longest_pause_, now - last_);
  if (stepped || !step_ || workers != workers_) last_ = now;
  stepped_ = stepped_ || stepped;
  step_ = step;
  workers_ = workers;
  return stepped;
}

Seconds ProgressWatch::patience(const StallRule& rule) const {
  if (!stepped_) return rule.to_start;
  return std::max({rule.at_least, rule.times_step * step_s_, rule.times_pause * longest_pause_});
}

std::optional<double> ProgressWatch::stalled_since(double now, const StallRule& rule) const {
  if (last_ == 0 || now - last_ <= patience(rule)) return std::nullopt;
  return last_;
}

}  // namespace rubato::control
