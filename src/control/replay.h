// What happened, simulated: the jobs of an event log with the speeds that were measured while they
// ran, under the policy that ran them or another one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/history.h"
#include "control/snapshot.h"

namespace rubato::control {

// A log with what can be read from it.
struct Past {
  State state;
  History history;
  // All jobs that finished, as they were when the first of them was submitted. Their speeds are the
  // mean seconds of a step between two view changes, by program and number of workers.
  Snapshot submitted;
  Seconds start_s = 0;  // mean, from a job's first grant to its first step
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
  double simulated_share = 0;  // of the devices' time, allocated, from first submission to last end

  double error() const { return live_mean_s > 0 ? simulated_mean_s / live_mean_s - 1 : 0; }
};

Result<Replay> replay(const Past& past, const std::string& policy, const Settings& settings);

// The same jobs under first in, first out, each with the same fixed number of devices: one replay
// for each number that all of them can use, the one with the lowest mean completion time first.
struct RigidReplay {
  int devices = 0;  // of each job
  Replay replay;
};
Result<std::vector<RigidReplay>> replay_rigid(const Past& past);

}  // namespace rubato::control
