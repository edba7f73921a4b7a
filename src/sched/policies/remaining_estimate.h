// How much work a job has left, estimated without an oracle.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "sched/speedup.h"

namespace rubato {

// For a job that declared its epochs: epochs left x samples per epoch, at the profiled speed.
// Samples per epoch come from the job's own progress or, before that, from other jobs of its
// application. For any other job: what ended jobs had left on average when they had received as
// much service. Before enough jobs have ended: as much service again as the job has received, at
// least `prior` device-seconds.
class RemainingEstimate {
 public:
  explicit RemainingEstimate(double prior_device_s) : prior_(prior_device_s) {}

  // Every decision must call this first.
  void observe(const PolicyInput& input);
  // Seconds left on one device of this type; above 0.
  Seconds one_device_s(const JobState& job, DeviceTypeId type, const PolicyInput& input,
                       RequestedBatchSpeed& speed) const;

 private:
  double samples_per_epoch(const JobState& job, Seconds now_s) const;  // 0: not known
  double from_history(double attained) const;

  double prior_;
  std::unordered_map<std::string, double> samples_per_epoch_;  // by application
  std::vector<double> services_;                               // of ended jobs, ascending
};

}  // namespace rubato
