// Decides whether a running job makes progress. Pure: the caller supplies the time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "model/speed.h"

namespace rubato::control {

// A job is stalled when it has not completed a step for longer than each of these.
struct StallRule {
  Seconds at_least = 10;
  double times_step = 10;  // its usual step
  double times_pause = 2;  // the longest pause that it recovered from by itself
  Seconds to_start = 300;  // replaces all three until its first step after a start
};

// What is known about one job's steps.
class ProgressWatch {
 public:
  // Its processes were started.
  void started(double now);
  // Records a report: steps done, workers, and the time of a step (0: not yet known). Returns true
  // if a step was completed since the last report. A change of workers alone is not progress, but
  // it restarts the clock.
  bool report(std::int64_t step, int workers, Seconds step_s, double now);

  std::int64_t step() const { return step_.value_or(0); }
  bool stepped() const { return stepped_; }  // did a step since it was started, or first seen
  // Start of the current pause if it is longer than the rule allows; otherwise nothing.
  std::optional<double> stalled_since(double now, const StallRule& rule = {}) const;

 private:
  Seconds patience(const StallRule& rule) const;

  double last_ = 0;  // progress; 0: nothing is known of the job
  std::optional<std::int64_t> step_;
  int workers_ = 0;
  bool stepped_ = false;  // since its start
  Seconds step_s_ = 0;
  Seconds longest_pause_ = 0;
};

}  // namespace rubato::control
