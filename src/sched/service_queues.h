// Queues by attained service (Tiresias, NSDI'19). A job enters the first queue. When its service
// reaches a queue's threshold, it moves to the end of the next queue.
#pragma once

#include <optional>
#include <vector>

#include "sched/order.h"

namespace rubato {

struct QueueOptions {
  std::vector<double> thresholds;  // device-seconds, ascending
  // A job that has waited this many times its executed time returns to the first queue; 0: never.
  double promote = 0;
};

// Service is executed seconds x requested devices, however many devices the job really had.
// Remembers the jobs between decisions; every decision must call update() first.
class ServiceQueues {
 public:
  explicit ServiceQueues(QueueOptions options) : options_(std::move(options)) {}

  // Synchronizes the queues with the input and moves jobs between them.
  void update(const PolicyInput& input);
  // By priority, then by queue, then by order of entry into the queue.
  JobOrder order(const PolicyInput& input) const;
  // The queue of a job, counted from 0; `job` is an index into the input's jobs.
  int queue(std::size_t job) const { return entries_[job].queue; }
  // The next time at which a job that runs under the plan reaches its threshold, or a waiting job
  // is promoted.
  std::optional<Seconds> next_change(const PolicyInput& input, const Plan& plan) const;

 private:
  struct Entry {
    JobId job;
    int queue = 0;
    long ticket = 0;              // order of entry into the queue
    Seconds executed_before = 0;  // executed time before the last promotion; no longer counts
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
