// The daemon's jobs, as commands on jobs see them (which_job.h).
#pragma once

#include <memory>

#include "client.h"
#include "which_job.h"

namespace rubato::cli {

// `server` is looked at when something is asked; it must live on.
std::unique_ptr<DaemonJobs> make_daemon_jobs(const ServerChoice& server);

// What it does with them.
int scale_daemon_job(const ServerChoice& server, const FoundJob& job, int devices, bool as_json);
int print_daemon_events(const ServerChoice& server, const EventsRequest& request);
int profile_daemon_job(const ServerChoice& server, const FoundJob& job,
                       const ProfileRequest& request);

}  // namespace rubato::cli
