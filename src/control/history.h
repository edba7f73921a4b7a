// Evaluates an event log: how the devices were used and how long jobs took.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "control/live_cluster.h"
#include "control/state.h"

namespace rubato::control {

struct JobHistory {
  double submitted_at = 0;
  double started_at = 0;  // first grant; 0: never
  double ended_at = 0;    // 0: not yet
  int resizes = 0;        // changes of the grant while the job ran, if only of its nodes
  int most_nodes = 0;     // that it was granted devices on at the same time
  bool finished = false;  // with a result
};

struct History {
  int devices = 0;  // of all nodes
  std::vector<LiveNode> nodes{};
  int most_held = 0;  // at any moment
  // Device-seconds held divided by device-seconds available (without reservations). `held_share`
  // covers the time from the first submission to the last end, `held_share_while_waiting` only the
  // part in which some job waited for devices.
  double held_share = 0;
  double held_share_while_waiting = 0;
  double waiting_s = 0;  // how long at least one job waited
  double makespan_s = 0;
  double mean_completion_s = 0;  // of jobs that finished
  std::map<JobNumber, JobHistory> jobs;
};

// Expects all events of one log, in order. Jobs that were submitted before the log begins are left
// out.
History history_of(std::span<const Event> events);

// A change of a running job's workers.
struct ViewChange {
  JobNumber job = 0;
  std::string cause;     // "join", "leave", ...; see docs/runtime.md
  bool planned = false;  // false: a worker was lost
  int workers = 0;       // after the change
  double prepare_s = 0;  // preparation while training continued
  double stall_s = 0;    // longest time for which a surviving worker was kept from computing
  // Median step time of the job with its previous number of workers, as last learned. If that size
  // was never measured, the value of the nearest measured size; 0 if none was measured.
  double step_s = 0;
};

// All changes that some workers survived. Starts, restarts and ends of jobs are not included.
std::vector<ViewChange> view_changes_of(std::span<const Event> events);

}  // namespace rubato::control
