// A program that does not use the runtime: it is run as a whole and judged by its exit code.
//
//             begin()               ended(): exit code 0, or no try is left
//   waiting ───────────▶ running ───────────────────────────────────────────▶ the job's end
//      ▲                 │    │
//      │   ended(): a try is  │ stop(): SIGTERM, SIGKILL after `grace_s`. The try does not count
//      │   left, after a pause│
//      ├──────────────────────┘
//      └── stopped; runs again when somebody starts the job again
//
// Promise: the program is started at most 1 + `retries` times, not counting runs that were stopped.
// Every arrow is on disk (elastic/job/try_record.h) before it has consequences, so this also holds
// when daemons and supervisors are killed or the machine restarts. If the process that watches the
// program is killed, nobody sees how the program ends: that counts as a failed try.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/try_record.h"
#include "elastic/launch/launcher.h"
#include "elastic/launch/worker_processes.h"

namespace rubato::elastic {

// What to tell the owner of a program that was submitted without a mode.
inline constexpr const char* kNotARubatoProgram =
    "it is not a Rubato program (it never called the runtime), so it was run once and its exit "
    "code counts; 'mode: opaque' says so explicitly (with devices and retries), and "
    "docs/training.md describes how a program uses the runtime";

struct OrdinaryRules {
  int retries = 0;
  double grace_s = 30;
  double retry_after_s = 0.25;  // doubles with each try, at most a minute
  bool stated = true;  // the owner said that it is such a program; otherwise it gets the hint above
};

class OrdinaryProgram {
 public:
  OrdinaryProgram(JobFolder folder, OrdinaryRules rules)
      : folder_(std::move(folder)), rules_(rules) {}

  // Call this first: continues what an earlier process recorded. Returns the end of the job if
  // there is nothing left to run.
  Result<std::optional<LaunchResult>> resume();
  // Whether the pause after a failed try is over.
  bool may_start() const { return Clock::now() >= next_start_; }
  // Call this before the program is started.
  Status begin(int worker);
  // It could not be started after all, so the try is repeated.
  void not_started();
  int number_of_try() const { return record_.tries; }
  // Asks the program to end. Call it repeatedly until the program has ended. If it ended by itself
  // before, call ended() instead.
  void stop(const WorkerProcesses& processes);
  // Call this when the program has ended; `status` is as from waitpid. Returns the end of the job,
  // or nothing if the program was stopped or is to be tried again.
  Result<std::optional<LaunchResult>> ended(int status);

 private:
  using Clock = std::chrono::steady_clock;
  Result<std::optional<LaunchResult>> conclude();
  Result<LaunchResult> finished() const;
  LaunchResult failed() const;
  std::string how_it_ended() const;

  JobFolder folder_;
  OrdinaryRules rules_;
  TryRecord record_;
  Clock::time_point started_;
  Clock::time_point next_start_;
  std::optional<Clock::time_point> stop_since_;
};

}  // namespace rubato::elastic
