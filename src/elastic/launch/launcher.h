// Starts a job's workers on this machine, keeps as many alive as the target asks for, and restarts
// the job from its last checkpoint if all are gone. Training does not need the launcher: it only
// starts and reaps processes. A job has one launcher per node; all of them see the job's folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/node_names.h"
#include "elastic/launch/worker_processes.h"

namespace rubato::elastic {

struct LaunchOptions {
  std::string folder;
  JobSettings settings;  // launch() fills in token, command and what follows from the mode
  int workers = 1;
  std::vector<std::string> command;
  NodeIdentity node{.name = default_node_name()};
  // Continue a job of another node here: nothing of it runs anywhere.
  bool anywhere = false;
  bool quiet = false;
  bool keep_target = false;  // the registry already holds the target; `workers` is ignored
  bool listed = true;        // shown by 'rubato ps'
  ProcessOptions processes{};
};

struct LaunchResult {
  enum class State { kFinished, kStopped, kFailed } state = State::kFailed;
  std::string message;
};

// While the job runs, status.json contains: `state`, `pid` of the launcher, `newcomers`, `workers`
// (id, pid and device of each living process), `target` (version of the target that the launcher
// obeys) and `devices` (those of the target that the job keeps; if the target has more devices than
// workers, only as many as workers once the surplus workers have left). Processes started under an
// older target are all listed in `workers`. After the job has ended: `step`, the steps it has done.
//
// Starts a new job, or continues the unfinished job in the folder if it has the same logical
// workers. Returns when the job and every process it started have ended.
Result<LaunchResult> launch(const LaunchOptions& options);

// Runs workers of a running job on another node until the job ends. After an interrupt the workers
// leave. Uses only the options folder, workers, node, quiet and processes.
Result<LaunchResult> join(const LaunchOptions& options);

// Finds a job by name or by folder. Names are links in the user's state folder: RUBATO_HOME, else
// RUBATO_STATE, else $XDG_STATE_HOME/rubato (~/.local/state/rubato).
Result<std::string> find_job(const std::string& job);
Status register_job(const std::string& name, const std::string& folder);
// Names and folders of all registered jobs that still exist.
std::vector<std::pair<std::string, std::string>> registered_jobs();

}  // namespace rubato::elastic
