// Starts a job's supervisor (supervise.h) as the right user, with a clean environment, in a control
// group of its own where the machine has one to offer. docs/isolation.md describes it for users.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/as_user.h"

namespace rubato::control {

struct Confinement {
  std::optional<UnixUser> user{};  // empty: the daemon's own
  // A transient systemd service holds the job. It enforces the limits below and ends with all its
  // processes. Without it, the supervisor finds and ends the job's processes.
  bool unit = false;
  std::int64_t memory_bytes = 0;  // 0: no limit; needs a unit
  double cpus = 0;                // 0: no limit; needs a unit
  bool gpus = true;               // false: no device node but the harmless ones; needs a unit
};

// Starts `program supervise FOLDER` with only the standard descriptors and does not wait for it.
// The returned process exits almost immediately and must be reaped. When it has exited, the
// supervisor has the lock, or has had it, or could not be started. Safe in a multithreaded process.
Result<pid_t> start_supervisor(const std::string& program, const std::string& folder,
                               const Confinement& how = {});

// The variables that a job gets from `daemon` (NAME=VALUE): search paths, locale, time zone and the
// settings of CUDA and of thread libraries. Everything else stays with the daemon: a job's own
// variables are in its document. With a user, HOME and the like are that user's.
std::vector<std::string> job_environment(const std::vector<std::string>& daemon,
                                         const std::optional<UnixUser>& user);

}  // namespace rubato::control
