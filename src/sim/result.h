// What a simulation produces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "sched/allocation.h"

namespace rubato {

struct JobResult {
  std::string name;
  std::string application;  // empty for recorded durations
  std::string tenant;
  int requested_devices = 0;
  Seconds submit_s = 0;
  Seconds start_s = -1;      // when it first got devices; -1: never
  Seconds finish_s = -1;     // -1: did not finish
  bool dropped = false;      // turned away by the policy without ever running
  Seconds queue_s = 0;       // total time without devices
  double device_s = 0;       // allocated device-seconds
  double lost_device_s = 0;  // included in device_s, lost to resizing
  int resizes = 0;           // changes of devices while running, plus restarts after preemption
  double fairness = 0;  // finish-time fairness rho: JCT / time on an equal share; a value above 1
                        // is worse than equal sharing

  bool finished() const { return finish_s >= 0; }
  Seconds jct_s() const { return finish_s - submit_s; }
};

// The state from this point to the next.
struct TimelinePoint {
  Seconds time_s = 0;
  int usable = 0;     // devices that are neither down nor reserved for serving
  int allocated = 0;  // devices held by jobs
  double useful = 0;  // allocated devices that compute (neither resizing nor synchronising)
  int running = 0;
  int waiting = 0;
};

// From time_s on, the job holds these devices and no others; none: it waits or has ended.
struct DeviceChange {
  Seconds time_s = 0;
  std::size_t job = 0;  // index in SimResult::jobs
  std::vector<NodeShare> shares;
};

// A node goes down or comes back.
struct NodeEvent {
  Seconds time_s = 0;
  NodeId node;
  bool down = true;
};

struct DecisionTimes {
  long rounds = 0;
  long noted = 0;  // rounds whose plan had a note (a solver hit its limit)
  double algorithm_ms_mean = 0;
  double algorithm_ms_p99 = 0;
  double total_ms_mean = 0;  // including validation, placement and the difference
  double total_ms_p50 = 0;
  double total_ms_p99 = 0;
};

struct SimSummary {
  std::string policy;
  std::string workload;
  std::uint64_t seed = 0;
  int jobs = 0;
  int jobs_finished = 0;
  int jobs_dropped = 0;  // turned away; not included in the queueing times below
  double mean_jct_s = 0, p50_jct_s = 0, p90_jct_s = 0, p99_jct_s = 0;
  double mean_queue_s = 0, p99_queue_s = 0;
  double makespan_s = 0;       // first submission to last finish
  double allocated_ratio = 0;  // allocated device-seconds / usable device-seconds over the makespan
  double useful_ratio = 0;     // computing device-seconds / usable device-seconds
  long resizes = 0;
  double resize_lost_device_s = 0;
  double mean_fairness = 0, worst_fairness = 0;
  double serving_wait_max_s = 0;  // longest time that serving waited for devices
  DecisionTimes decisions;
  double wall_s = 0;
};

enum class SimEnd {
  kDone,      // nothing was left to do, or nothing that could ever run
  kJobEnded,  // SimLimits::until_job
  kHorizon,   // SimLimits::horizon_s
  kStopped,   // SimLimits::should_stop
};

struct SimResult {
  SimSummary summary;
  SimEnd end = SimEnd::kDone;
  Seconds end_s = 0;            // the simulated second at which it ended
  std::vector<JobResult> jobs;  // in order of the workload
  std::vector<TimelinePoint> timeline;
  // In order of time; empty unless SimOptions::record_devices.
  std::vector<DeviceChange> changes;
  std::vector<NodeEvent> node_events;
};

// Computes the statistics in `summary` that follow from the jobs.
void summarize_jobs(const std::vector<JobResult>& jobs, SimSummary& summary);

}  // namespace rubato
