// Queues by attained service (Tiresias, NSDI'19): a job enters the first queue; when its service
// reaches a queue's threshold it moves to the end of the next one.
#pragma once

#include <optional>
#include <vector>

#include "sched/order.h"

namespace rubato {

struct QueueOptions {
  std::vector<double> thresholds;  // device-seconds, ascending
  // A job that has waited this many times its executed time starts again in the first queue; 0:
  // never.
  double promote = 0;
};

// Service is executed seconds x requested devices, whatever the devices were. Remembers the jobs
// between decisions; update() comes first in each.
class ServiceQueues {
 public:
  explicit ServiceQueues(QueueOptions options) : options_(std::move(options)) {}

  // Brings the queues in line with the input and moves jobs between them.
  void update(const PolicyInput& input);
  // By priority, then queue, then order of entry into it.
  JobOrder order(const PolicyInput& input) const;
  // The queue of a job (an index into the input's jobs), from 0.
  int queue(std::size_t job) const { return entries_[job].queue; }
  // When a job that runs under the plan will reach its threshold, or a waiting one its promotion.
  std::optional<Seconds> next_change(const PolicyInput& input, const Plan& plan) const;

 private:
  struct Entry {
    JobId job;
    int queue = 0;
    long ticket = 0;              // order of entry into the queue
    Seconds executed_before = 0;  // executed time forgiven by promotions
    Seconds waited_from = 0;      // end of the last time it ran
  };

  static Seconds unforgiven(const Entry& entry, const JobState& job, const PolicyInput& input);
  static double service(const Entry& entry, const JobState& job, const PolicyInput& input);

  QueueOptions options_;
  std::vector<Entry> entries_;  // parallel to the input's jobs
  long next_ticket_ = 0;
};

// The parameters `threshold`, `threshold2` and `promote` of policies that use these queues.
std::vector<ParamSpec> queue_params();
QueueOptions queue_options(const Params& params);

}  // namespace rubato
