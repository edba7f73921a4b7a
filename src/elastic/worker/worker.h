// One worker process of a job: joins it, trains, survives the loss of others, leaves on request.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "elastic/worker/program.h"

namespace rubato::elastic {

struct WorkerOptions {
  std::string name = "job";
  std::int64_t epochs = 1;
  std::int64_t steps = -1;  // may end the job before `epochs` do; -1: run all epochs
  int logical_workers = 1;  // the program's own number, unless the job's owner gave another one
  bool logical_workers_asked = false;  // given on the program's command line
  bool prints = true;                  // the result and epochs, to stdout
  // Called once on every worker that is present at the end, when the program holds the final state.
  // The span is the private state of logical worker 0, which a job delivers.
  std::function<void(std::span<const std::byte> private_state)> at_end;
};

// Exit codes of a worker.
inline constexpr int kWorkerDone = 0;      // the job is finished, or this worker left as planned
inline constexpr int kWorkerFailed = 1;    // it cannot continue; the message is on stderr
inline constexpr int kWorkerRefused = 3;   // the job refuses it; restarting it is pointless
inline constexpr int kWorkerExcluded = 4;  // the job continued or ended without it

// Environment variables that assign a worker to a job. The launcher sets them. Without both of them
// the worker is a job of its own.
inline constexpr const char* kJobFolderVariable = "RUBATO_JOB_DIR";
inline constexpr const char* kWorkerVariable = "RUBATO_WORKER";
// Of a job whose registry is the daemon's: number of the empty view after which the worker may
// found the job, or -1.
inline constexpr const char* kFoundsVariable = "RUBATO_FOUNDS_AFTER";
// The folder of a finished adaptive job. If set, the worker does not train but repeats that job
// (elastic/job/replay.h) and writes the outcome to the folder.
inline constexpr const char* kReplayVariable = "RUBATO_REPLAY_DIR";

// Tells the job, if there is one, that its program uses the runtime. run_worker() does it, too, but
// a program that needs long before it calls that should not be taken for one that has nothing to
// say.
void say_hello();

// Trains the program to the end and returns an exit code.
int run_worker(Program& program, const WorkerOptions& options);

}  // namespace rubato::elastic
