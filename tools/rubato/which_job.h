// Which job a command is about: the one answer for all commands.
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
  std::string id;      // "j12" of a daemon's job; empty: it is one of `rubato run`
  std::string name;    // as its owner calls it
  std::string folder;  // on this machine; empty: it lies on another, or has not started yet
  bool active = false;
  nlohmann::json document = nlohmann::json::object();  // of a daemon's job, where the daemon runs

  bool of_daemon() const { return !id.empty(); }
  // What a person can give to the next command.
  const std::string& shown() const { return of_daemon() ? id : name; }
};

struct EventsRequest {
  std::optional<FoundJob> job;  // none: all
  bool follow = false;
  std::int64_t after = 0;
  bool as_json = false;
};

struct ProfileRequest {
  int low = 1;
  std::optional<int> high;  // none: of a daemon's job only what is known
  bool as_json = false;
};

// The daemon's jobs. A build of the runtime alone knows none (Context::daemon is null).
class DaemonJobs {
 public:
  virtual ~DaemonJobs() = default;
  // By id ("j12", "12") or name. Where no daemon answers, its jobs are looked for in the state
  // folder of this machine. kNotFound: there is none, and the message says whether a daemon runs.
  virtual Result<FoundJob> find(const std::string& job) = 0;
  // The id of the job whose folder this is; empty: it belongs to no daemon. A folder of a daemon
  // other than the one that commands would ask is an error.
  virtual Result<std::string> id_of_folder(const std::string& folder) = 0;
  // Those in the state folder of this machine whose processes run, with id, name and folder.
  virtual std::vector<FoundJob> running_here() = 0;

  // What commands do with a job of the daemon; they return the exit code.
  virtual int scale(const FoundJob& job, int devices, bool as_json) = 0;
  virtual int events(const EventsRequest& request) = 0;
  virtual int profile(const FoundJob& job, const ProfileRequest& request) = 0;
};

// JOB is a folder, an id (j12, 12) or a name. A name may be that of a job of `rubato run` and of
// one of the daemon: then the active one is meant, and when that does not decide it is refused with
// what would. With --server only that daemon is asked.
Result<FoundJob> which_job(const Context& context, const std::string& job);
// Refused, with `instead` as the remedy, when it is not of that kind.
Result<FoundJob> which_daemon_job(const Context& context, const std::string& job,
                                  const std::string& instead = "");
Result<FoundJob> which_job_of_run(const Context& context, const std::string& job,
                                  const std::string& instead);

}  // namespace rubato::cli
