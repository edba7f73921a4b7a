// A job's supervisor: a process in its own session that runs the elastic layer's launcher (or, for
// an opaque job, elastic/launch/opaque_job.h) in the job's folder, independently of the daemon.
//
//   FOLDER/supervise.json   what to run. While it exists, a supervisor may be running, so the
//                           job's devices must not be given away before retire() has removed it
//   FOLDER/supervisor.lock  held by the supervisor while it lives; contains its process id
//   FOLDER/workers.lock     held by the supervisor and by every process it has started
//   FOLDER/supervisor.log   its output
//
// No matter how many supervisors are started for a folder, and when their daemons were killed, only
// one runs: the lock decides. A supervisor that starts late, after the job was retired, finds no
// supervise.json and exits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "control/process_lock.h"
#include "elastic/launch/launcher.h"

namespace rubato::control {

// Writes FOLDER/supervise.json atomically. The job's target must already be in its registry.
// `first_target` is the version of that target, the oldest that the supervisor can see.
// `ends_with`: a lock (process_lock.h); the job's processes here end when nobody holds it any more.
// Empty: they outlive whoever started them.
Status write_supervision(const elastic::LaunchOptions& options, std::int64_t first_target,
                         const std::string& ends_with = "");
struct Supervision {
  elastic::LaunchOptions options;
  std::int64_t first_target = 0;
};
Result<Supervision> read_supervision(const std::string& folder);

// Exit codes of `PROGRAM supervise FOLDER`. That process only hands over to the supervisor.
inline constexpr int kHandedOver = 0;
inline constexpr int kSupervisedAlready = 75;  // or retired in the meantime

bool is_supervised(const std::string& folder);
// Whether processes started by the supervisor are alive. They briefly outlive a killed supervisor.
// A process that has closed all its files is seen only in a service of its own (job_unit.h).
bool has_workers(const std::string& folder);
bool signal_supervisor(const std::string& folder, int signal);
// Kills every process of the job: its service, its supervisors with all their descendants, even if
// the job has removed their lock, and leftovers of a supervisor that died (kill_leftovers()). Call
// it again until nothing runs: it waits for moments only. Returns the number of supervisors and
// leftovers that it found. Searches all processes of the machine.
int kill_supervised(const std::string& folder);
// Makes sure that no process of the job runs now or will run later. False if one is running.
bool retire(const std::string& folder);

// The body of `PROGRAM supervise FOLDER`. Must be called before the program has threads. Returns an
// exit code: immediately in the process that was started, and after the end of the job in the
// supervisor.
int supervise(const std::string& folder_given);

// Writes the status.json of a job whose launcher cannot write it itself.
Status write_final_status(const std::string& folder, const std::string& state,
                          const std::string& message);

}  // namespace rubato::control
