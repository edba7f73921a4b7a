// The daemon's jobs for commands that take a job (which_job.h).
#pragma once

#include <memory>

#include "client.h"
#include "which_job.h"

namespace rubato::cli {

// `server` is read at every request and must outlive the result.
std::unique_ptr<DaemonJobs> make_daemon_jobs(const ServerChoice& server);

// The commands of DaemonJobs.
int scale_daemon_job(const ServerChoice& server, const FoundJob& job, int devices, bool as_json);
int print_daemon_events(const ServerChoice& server, const EventsRequest& request);
int profile_daemon_job(const ServerChoice& server, const FoundJob& job,
                       const ProfileRequest& request);

}  // namespace rubato::cli
