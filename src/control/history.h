// What an event log says afterwards: how the devices were used and how long jobs took.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "control/state.h"

namespace rubato::control {

struct JobHistory {
  double submitted_at = 0;
  double started_at = 0;  // first grant; 0: never
  double ended_at = 0;    // 0: not yet
  int resizes = 0;        // changes of the grant while it ran
  bool finished = false;  // with a result
};

struct History {
  int devices = 0;    // of the machine
  int most_held = 0;  // at any moment
  // Device-seconds held / device-seconds there were (without reserved ones): from the first
  // submission to the last end, and only while some job waited for devices.
  double held_share = 0;
  double held_share_while_waiting = 0;
  double waiting_s = 0;  // how long some job waited
  double makespan_s = 0;
  double mean_completion_s = 0;  // of jobs that finished
  std::map<JobNumber, JobHistory> jobs;
};

// The events of one log, complete and in order.
History history_of(std::span<const Event> events);

// A running job got other workers.
struct ViewChange {
  JobNumber job = 0;
  std::string cause;     // "join", "leave", ...; see docs/runtime.md
  bool planned = false;  // decided by somebody; otherwise a worker was lost
  int workers = 0;       // from now on
  double prepare_s = 0;  // beside the training
  double stall_s = 0;    // longest time that a worker which stayed was kept from computing
  // Median step of the job with the workers it had until then, as last learned; where that size was
  // never measured, of the size nearest to it. 0: nothing was.
  double step_s = 0;
};

// All changes in which workers stayed: not the beginnings, restarts and ends of jobs.
std::vector<ViewChange> view_changes_of(std::span<const Event> events);

}  // namespace rubato::control
