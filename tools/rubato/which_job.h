// Finds the job that a command refers to, in the same way for all commands.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::cli {

struct Context;

// A job of `rubato run`, or one of the daemon.
struct FoundJob {
  std::string id;      // "j12" for a job of the daemon; empty for a job of `rubato run`
  std::string name;    // given by its owner
  std::string folder;  // on this machine; empty if it is on another or has not started
  bool active = false;
  nlohmann::json document = nlohmann::json::object();  // of a job of a reachable daemon

  bool of_daemon() const { return !id.empty(); }
  // The id or name to pass to the next command.
  const std::string& shown() const { return of_daemon() ? id : name; }
};

struct EventsRequest {
  std::optional<FoundJob> job;  // empty: all jobs
  bool follow = false;
  std::int64_t after = 0;
  bool as_json = false;
};

struct ProfileRequest {
  int low = 1;
  std::optional<int> high;  // empty for a job of the daemon: only past measurements
  bool as_json = false;
};

// The daemon's jobs. In a build of the runtime alone there are none (Context::daemon is null).
class DaemonJobs {
 public:
  virtual ~DaemonJobs() = default;
  // Finds a job by id ("j12", "12") or name. If no daemon answers, it searches the state folder
  // of this machine. kNotFound: there is no such job; the message says whether a daemon runs.
  virtual Result<FoundJob> find(const std::string& job) = 0;
  // The id of the job with this folder; empty if it belongs to no daemon. It is an error if the
  // folder belongs to another daemon than the one that commands use.
  virtual Result<std::string> id_of_folder(const std::string& folder) = 0;
  // Running jobs in the state folder of this machine, with id, name and folder.
  virtual std::vector<FoundJob> running_here() = 0;

  // Commands for a job of the daemon. They return the exit code.
  virtual int scale(const FoundJob& job, int devices, bool as_json) = 0;
  virtual int events(const EventsRequest& request) = 0;
  virtual int profile(const FoundJob& job, const ProfileRequest& request) = 0;
};

// `job` is a folder, an id (j12, 12) or a name. If a job of `rubato run` and a job of the daemon
// have this name, the active one is chosen. If that is ambiguous, the error says how to name each.
// With --server only that daemon is asked.
Result<FoundJob> which_job(const Context& context, const std::string& job);
// An error, with `instead` as the remedy, if the job is of the other kind.
Result<FoundJob> which_daemon_job(const Context& context, const std::string& job,
                                  const std::string& instead = "");
Result<FoundJob> which_job_of_run(const Context& context, const std::string& job,
                                  const std::string& instead);

}  // namespace rubato::cli
