// Which job had which device when: the data behind the demo's picture.
//
// Devices are interchangeable CPU slots, and the daemon's log says how many each job occupies, not
// which. A job's devices are therefore assigned to rows here: it keeps its rows while it holds
// them, and a job that gets more takes free rows next to its own where it can. The number of rows a
// job fills at any moment is exactly the number of devices it held.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "control/replay.h"
#include "control/state.h"

namespace rubato::demo {

// One job on one device. Times are seconds since the first submission.
struct Bar {
  int row = 0;
  control::JobNumber job = 0;
  double from = 0;
  double to = 0;
  bool training = true;  // false: the worker is starting or stopping
};

enum class MarkKind { kGrown, kShrunk, kKilled };

struct Mark {
  MarkKind kind = MarkKind::kGrown;
  int row = 0;
  control::JobNumber job = 0;
  double at = 0;
};

// A job that has no device although it could use one.
struct Wait {
  control::JobNumber job = 0;
  double from = 0;
  double to = 0;
};

struct Timeline {
  int rows = 0;
  std::vector<Bar> bars{};
  std::vector<Mark> marks{};
  std::vector<Wait> waits{};
  std::map<control::JobNumber, double> ends{};  // of the jobs that ended
};

// What happened, from a complete log with the events in order.
Timeline timeline_of(std::span<const control::Event> events, int devices);

// What the simulator made of the same jobs, each on a fixed number of devices. `submitted` says
// when each job came, in seconds since the first one; a job trains `start_s` after it got its
// devices.
Timeline timeline_of(const control::RigidReplay& rigid,
                     const std::map<control::JobNumber, double>& submitted, int devices,
                     double start_s);

}  // namespace rubato::demo
