// Starts a job's workers on this machine, keeps as many alive as the target asks for, and restarts
// the job from its last checkpoint if all are gone. Training does not need the launcher: it only
// starts and reaps processes. A job has one launcher per node; all of them see the job's folder.
#pragma once

#include <functional>
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
  // Of a job whose registry is the daemon's (is_spread): the checkpoints in the folder are the
  // newest ones, and nobody of the job is alive on another node.
  bool founds = false;
  bool quiet = false;
  bool keep_target = false;  // the registry already holds the target; `workers` is ignored
  bool listed = true;        // shown by 'rubato ps'
  // Whether nobody is left who could look after the job, so that it must end here; null: there
  // always is. Called in every round of the launcher.
  std::function<bool()> abandoned{};
  ProcessOptions processes{};
};

struct LaunchResult {
  // kGone: a job on several nodes has lost all its workers. Whoever started the launchers begins
  // the job again where its newest checkpoint is.
  enum class State { kFinished, kStopped, kGone, kFailed } state = State::kFailed;
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

// Runs the workers of one node of a job whose registry is the daemon's. What this node should have
// is the target in the folder's own registry, which belongs to this launcher alone; the target of
// the whole job is in the daemon's registry, and both agree before long. On a node that does not
// found the job, the folder has its settings and its secret. Returns when the job has finished, or
// this node's target is to stop and its processes have left.
Result<LaunchResult> launch_share(const LaunchOptions& options);

// Finds a job by name or by folder. Names are links in the user's state folder: RUBATO_HOME, else
// RUBATO_STATE, else $XDG_STATE_HOME/rubato (~/.local/state/rubato).
Result<std::string> find_job(const std::string& job);
Status register_job(const std::string& name, const std::string& folder);
// Names and folders of all registered jobs that still exist.
std::vector<std::pair<std::string, std::string>> registered_jobs();

}  // namespace rubato::elastic
