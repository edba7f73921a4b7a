// How the jobs of a daemon are kept from each other and from the daemon (docs/isolation.md).
#pragma once

#include <string>

#include "base/result.h"
#include "control/as_user.h"
#include "control/job_document.h"
#include "control/start_supervisor.h"

namespace rubato::control {

struct Machine;

struct Isolation {
  // Every job runs as a unix user of its own and owns its folder. The daemon, which is root, acts
  // in a job's folder with that user's rights. Otherwise all jobs run as the daemon's user.
  bool users = false;
  bool units = false;  // every job is a transient systemd service (job_unit.h)
};

// `given` is the value of --isolation: "user", "none" or "" if the option is absent. A daemon that
// is not root runs jobs as itself. As root it must be told which of both is meant.
Result<Isolation> choose_isolation(const std::string& given);

// Refuses limits that this daemon cannot enforce.
Status check_limits(const Isolation& isolation, const JobDocument& document);

// Creates the folder of a job and gives it to the user of its document. It may exist already. An
// error if it belongs to somebody else. Does nothing without users.
Status give_folder(const Isolation& isolation, const std::string& folder,
                   const JobDocument& document);
// How to start the supervisor of the job in `folder`.
Result<Confinement> confinement_of(const Isolation& isolation, const JobDocument& document,
                                   const Machine& machine, const std::string& folder);

// Makes FOLDER/jobs reachable, but not readable, for the users of jobs. Without users, everything
// is private to the daemon's user. An error names a folder above it that they cannot enter.
Status open_way_to(const Isolation& isolation, const std::string& jobs);

}  // namespace rubato::control
