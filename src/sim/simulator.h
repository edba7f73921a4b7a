// The simulator: drives a Scheduler through a workload with a simulated clock and executor.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sched/policy.h"
#include "sched/scheduler.h"
#include "sim/result.h"
#include "sim/sim_job.h"
#include "sim/workload.h"

namespace rubato {

// The cost of changing a job's devices. A job's own resize_cost_s replaces `stop_s`.
struct ResizeModel {
  // Stop-and-resume: every change, including the first start and restarts, pauses the job this
  // long.
  Seconds stop_s = 30;
  // Stop-free: a running job that grows, shrinks or moves pauses only this long. Starts still cost
  // stop_s.
  std::optional<Seconds> stop_free_s;
};

// From time_s on, serving holds this many devices of a type.
struct ServingLoad {
  Seconds time_s = 0;
  DeviceTypeId type;
  int devices = 0;
};

// Where a simulation continues: a decision was made elsewhere at second 0.
struct SimStart {
  struct Job {
    JobPast past;
    Seconds pause_s = 0;  // before it computes on its devices
  };
  std::vector<Job> jobs;        // that arrive at second 0, by index
  Seconds decides_again_s = 0;  // the next decision comes then, or at an event before
};

// When a simulation ends before its workload does. It looks at this between two decisions.
struct SimLimits {
  Seconds horizon_s = std::numeric_limits<double>::infinity();
  std::optional<std::size_t> until_job{};  // ends once this job has ended
  std::function<bool()> should_stop{};     // asked often; must be quick
};

struct SimOptions {
  // Decides every `round_s` seconds (at 1, 2, 3, ... times the interval), as clusters with a
  // scheduling interval do. Without a value: at every arrival, completion, node or serving event,
  // and when the policy asked to be woken.
  std::optional<Seconds> round_s;
  ResizeModel resize;
  // Slowdown of jobs that span nodes and share a node with another such job; 0: none.
  double interference = 0;
  ScalingLaw law;
  Quirks quirks;
  std::uint64_t seed = 1;
  Settings settings;                      // of the policy
  std::vector<NodeEvent> node_events;     // ordered by time
  std::vector<ServingLoad> serving_load;  // ordered by time
  // Devices that serving asks for are given back at the next decision, or after this many seconds
  // at the latest; 0: at once.
  Seconds give_back_s = 0;
  std::function<void(int finished_jobs)>
      on_progress;  // called from time to time, from the simulating thread
  std::function<void(const Scheduler&)> on_round;  // called after every decision
  bool record_devices = false;                     // fills SimResult::changes and node_events
  SimLimits limits{};
  std::optional<SimStart> start{};  // not with round_s; empty: second 0 has its own decision
};

// Runs the whole workload. Deterministic: the same input gives the same result, except for measured
// wall times. Jobs that can never run again (because their nodes stay down) are left unfinished. An
// invalid plan ends the simulation with an error. SimResult::end says whether a limit ended it.
Result<SimResult> simulate(const Cluster& cluster, const Workload& workload,
                           const PolicyInfo& policy, const SimOptions& options);
// The same with a policy that the caller made, such as one for pinned jobs or several tenants
// around the one that `info` describes.
Result<SimResult> simulate(const Cluster& cluster, const Workload& workload, const PolicyInfo& info,
                           std::unique_ptr<Policy> policy, const SimOptions& options);

}  // namespace rubato
