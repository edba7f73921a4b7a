// Runs jobs on this machine, its only node. The processes of a job belong to its own supervisor
// (`rubatod supervise FOLDER`: the elastic layer's launcher in its own session), which does not
// depend on the daemon. When the daemon dies, jobs keep training, and adopt() finds them again.
//
// What a job holds here: the devices that its supervisor may use under any target that it may still
// be obeying, and those of its live processes. A job grows only if there are enough free devices
// for everything it wants.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/isolation.h"
#include "control/job_executor.h"
#include "control/machine.h"
#include "control/uploads.h"

namespace rubato::control {

class ProcessKiller;

struct LocalExecutorOptions {
  std::string folder;      // job folders are FOLDER/<number>
  std::string supervisor;  // program, called as: supervisor supervise FOLDER/<number>
  Machine machine;
  std::string node_of_jobs = "local";  // what their launchers call this machine
  // This machine is a node of a cluster: a job that can have workers on other nodes, too, has its
  // registry in the daemon (elastic/job/desk_registry.h), and its workers accept connections of
  // those at `listen`. Its folder has the file `guest` if the job was not begun here.
  bool of_cluster = false;
  std::string listen = "127.0.0.1";
  std::string ends_with{};  // a lock: what runs here ends when nobody holds it (supervise.h)
  Isolation isolation{};
  std::shared_ptr<Uploads> uploads{};  // null: no job has one
  // If a job does not stop, its supervisor gets SIGTERM, then all its processes get SIGKILL. If a
  // worker does not leave when its job shrinks, the supervisor does the same to the worker.
  double term_after_s = 20;
  double kill_after_s = 5;
  // A supervisor that died is restarted after this delay, which doubles each time, at most
  // `most_restarts` times without progress.
  double restart_after_s = 0.5;
  int most_restarts = 5;
  // Limits per worker; 0: the daemon's own limits.
  std::int64_t worker_memory_bytes = 0;
  std::int64_t worker_files = 0;
  std::int64_t log_bytes = 16 << 20;        // a worker's log is rotated when it is larger
  int log_files = 3;                        // rotated logs to keep
  std::shared_ptr<ProcessKiller> killer{};  // set by make()
};

// What is read of each job in one poll() is bounded. If reading a job's folder throws all the same,
// that job ends as failed and the others go on.
class LocalExecutor : public JobExecutor {
 public:
  static Result<std::unique_ptr<LocalExecutor>> make(LocalExecutorOptions options);

  virtual std::string job_folder(JobNumber job) const = 0;
  using JobExecutor::log_files;
  // Like cancel(), but kills the processes without asking them to end: what they would still save
  // is not wanted.
  virtual void end_at_once(JobNumber job) = 0;
  // What the launcher of a job says that this node has of it.
  struct Share {
    std::int64_t view = 0;  // newest that the launcher knows
    int members = 0;        // processes that are or were members of a view
  };
  virtual Share share_of(JobNumber job) const = 0;
  // The same without asking whose they are.
  virtual std::vector<std::string> log_files(JobNumber job) const = 0;
};

}  // namespace rubato::control
