// One worker process of a job: joins it, trains, survives the others, leaves when asked.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "elastic/program.h"

namespace rubato::elastic {

struct WorkerOptions {
  std::string name = "job";
  std::int64_t epochs = 1;
  std::int64_t steps = -1;  // stops earlier than `epochs`; -1: after them
  int logical_workers = 1;  // the program's own number, unless the job's owner gave another one
  bool logical_workers_asked = false;  // the program's command line names it
  // Called once on every worker that is there at the end, with the final state in the program. The
  // span is the private state of logical worker 0, which a job delivers.
  std::function<void(std::span<const std::byte> private_state)> at_end;
};

// Exit codes of a worker.
inline constexpr int kWorkerDone = 0;     // the job is finished, or this worker left as planned
inline constexpr int kWorkerFailed = 1;   // it cannot go on; the message is on stderr
inline constexpr int kWorkerRefused = 3;  // the job does not take it (a starter must not try again)
inline constexpr int kWorkerExcluded = 4;  // the job went on without it, or ended before it came in

// Environment variables with which a launcher tells a worker where it belongs. Without the first
// one the worker is a job of its own.
inline constexpr const char* kJobFolderVariable = "RUBATO_JOB_DIR";
inline constexpr const char* kWorkerVariable = "RUBATO_WORKER";
// The folder of a finished adaptive job: instead of training, repeat what it did (elastic/replay.h)
// and leave the outcome in its folder.
inline constexpr const char* kReplayVariable = "RUBATO_REPLAY_DIR";

// Trains the program to its end and returns an exit code.
int run_worker(Program& program, const WorkerOptions& options);

}  // namespace rubato::elastic
