// Starts a job's workers on this machine, keeps as many alive as the target asks for, and restarts
// the job from its last checkpoint when all are gone. The launcher is not needed for training: it
// only starts and reaps processes. A job has one launcher per node; all see the job's folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "elastic/job_folder.h"
#include "elastic/node_names.h"
#include "elastic/worker_processes.h"

namespace rubato::elastic {

struct LaunchOptions {
  std::string folder;
  JobSettings settings;  // token, command and what follows from the mode are filled in
  int workers = 1;
  std::vector<std::string> command;
  NodeIdentity node{.name = default_node_name()};
  bool quiet = false;
  bool keep_target = false;  // it is in the registry already, and `workers` means nothing
  bool listed = true;        // by 'rubato ps'
  ProcessOptions processes{};
};

struct LaunchResult {
  enum class State { kFinished, kStopped, kFailed } state = State::kFailed;
  std::string message;
};

// While the job runs, status.json says: `state`, `pid` of the launcher, `newcomers`, `workers` (id,
// pid, device of each living process), `target` (version of the target that the launcher obeys) and
// `devices` (those of the target that it goes on using: when the target has more devices than
// workers, as many as workers once the others have left theirs). Processes that were started under
// an older target are all in `workers`. When the job has ended: `step`, the steps it had done.
//
// A new job, or, when the folder holds an unfinished one with the same logical workers, that one
// continued. Returns when the job has ended; every process it started has ended then.
Result<LaunchResult> launch(const LaunchOptions& options);

// Workers of a running job on a further node, until the job ends, or until an interrupt: then they
// leave. Of the options it needs folder, workers, node.
Result<LaunchResult> join(const LaunchOptions& options);

// A job by name or by folder. Names are links in the user's state folder: RUBATO_HOME, else
// RUBATO_STATE, else $XDG_STATE_HOME/rubato (~/.local/state/rubato).
Result<std::string> find_job(const std::string& job);
Status register_job(const std::string& name, const std::string& folder);
// Folders of all registered jobs that still exist, by name.
std::vector<std::pair<std::string, std::string>> registered_jobs();

}  // namespace rubato::elastic
