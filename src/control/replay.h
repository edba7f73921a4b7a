// Simulates the jobs of an event log again with the speeds that were measured while they ran, under
// the original policy or another one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/history.h"
#include "control/snapshot.h"

namespace rubato::control {

// What a replay needs from an event log.
struct Past {
  State state;
  History history;
  // All jobs that finished, in their state when the first of them was submitted. Their speeds are
  // the mean seconds per step between two view changes, by program and number of workers and of
  // nodes.
  Snapshot submitted;
  Seconds start_s = 0;  // mean time from a job's first grant to its first step
};
Past past_of(State state, std::span<const Event> events);

struct ReplayedJob {
  JobNumber job = 0;
  std::string name;
  Seconds live_s = 0;            // from submission to end
  Seconds simulated_wait_s = 0;  // from submission to its first devices
  Seconds simulated_s = 0;       // from submission to end
};

struct Replay {
  std::vector<ReplayedJob> jobs;
  double live_mean_s = 0;
  double simulated_mean_s = 0;
  double simulated_share = 0;  // of device time allocated, from first submission to last end

  double error() const { return live_mean_s > 0 ? simulated_mean_s / live_mean_s - 1 : 0; }
};

Result<Replay> replay(const Past& past, const std::string& policy, const Settings& settings);

// Simulates the same jobs under first in, first out, with the same fixed number of devices for
// every job. Returns one replay for each number that all jobs can use; the one with the lowest mean
// completion time comes first.
struct RigidReplay {
  int devices = 0;  // of each job
  Replay replay;
};
Result<std::vector<RigidReplay>> replay_rigid(const Past& past);

}  // namespace rubato::control
