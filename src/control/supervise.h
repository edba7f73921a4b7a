// A job's supervisor: a process in a session of its own that runs the launcher of layer elastic in
// the job's folder, whatever becomes of the daemon.
//
//   FOLDER/supervise.json   what to run. While it exists, a supervisor may run: whoever counts the
//                           job's devices must not give them away before retire() has removed it
//   FOLDER/supervisor.lock  held by the supervisor while it lives; its process is named inside
//   FOLDER/workers.lock     held by the supervisor and by every process it has started
//   FOLDER/supervisor.log   its output
//
// However many supervisors are started for a folder, by daemons that were killed at whatever
// moment, one runs: the lock decides. One that starts late, after the job has been retired, finds
// no supervise.json and ends.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "control/process_lock.h"
#include "elastic/launcher.h"

namespace rubato::control {

// Writes FOLDER/supervise.json (all or nothing). The job's target must be in its registry before;
// `first_target` is its version, the oldest that the supervisor may come to see.
Status write_supervision(const elastic::LaunchOptions& options, std::int64_t first_target);
struct Supervision {
  elastic::LaunchOptions options;
  std::int64_t first_target = 0;
};
Result<Supervision> read_supervision(const std::string& folder);

// Exit codes of `PROGRAM supervise FOLDER`, whose process only hands over to the supervisor.
inline constexpr int kHandedOver = 0;
inline constexpr int kSupervisedAlready = 75;  // or retired meanwhile

// Starts `program supervise FOLDER` with nothing but the standard descriptors; does not wait for
// it. The process that is returned ends within moments and must be reaped: with kHandedOver the
// supervisor has the lock, or has had it. Safe in a process with threads.
Result<pid_t> start_supervisor(const std::string& program, const std::string& folder);

bool is_supervised(const std::string& folder);
// Processes that the supervisor has started; they live on for a moment when it is killed.
bool has_workers(const std::string& folder);
bool signal_supervisor(const std::string& folder, int signal);
// Kills the supervisor and everything that carries the job's folder in its environment.
void kill_supervised(const std::string& folder);
// Nobody runs, and from now on nobody will. False: somebody does.
bool retire(const std::string& folder);

// The body of `PROGRAM supervise FOLDER`. Must be called before the program has threads. Returns an
// exit code: at once in the process that was started, when the job has ended in the supervisor.
int supervise(const std::string& folder_given);

// status.json of a job as somebody other than the launcher writes it.
Status write_final_status(const std::string& folder, const std::string& state,
                          const std::string& message);

}  // namespace rubato::control
