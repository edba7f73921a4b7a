// Runs jobs on this machine. The processes of a job belong to its own supervisor (`rubatod
// supervise FOLDER`: the elastic layer's launcher in its own session), which does not depend on the
// daemon. When the daemon dies, jobs keep training, and adopt() finds them again.
//
// *Wanted* is the number of devices that a job should have. *Held* is the set of devices that its
// processes occupy: those its supervisor may use under any target it may still be obeying, and
// those of its live processes. A job holds nothing once its supervisor and all its processes are
// gone. A job grows only into devices that no job holds, and only if there are enough for
// everything it wants. Invariant after every call: no device is held by two jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/isolation.h"
#include "control/job_document.h"
#include "control/state.h"
#include "control/uploads.h"

namespace rubato::control {

class ProcessKiller;

// The devices of this machine.
struct Machine {
  std::string type = "cpu";  // device type: "cpu" or the GPU's name
  int devices = 1;
  std::vector<std::string> visible{};  // CUDA_VISIBLE_DEVICES of each; empty for CPU slots
};
// `cpu_slots` CPU slots if that is > 0, else the CUDA GPUs that nvidia-smi lists (no CUDA library
// needed).
Result<Machine> find_machine(int cpu_slots);
// Parses the output of nvidia-smi, lines of the form "GPU-<uuid>, <name>". Without lines the
// machine has no devices.
Result<Machine> parse_gpu_list(std::string_view text);

// Something that happened to a job since the last poll(). The notices of one job are in order.
struct Notice {
  enum class Kind {
    kHeld,      // the job now holds `devices`
    kEvent,     // body: a line of the runtime's events.jsonl, with `events_offset` after it; every
                // line comes exactly once, in order
    kProgress,  // body: step, total_steps, epoch, epochs, loss, workers, logical_workers, batch,
                // step_s (median of recent steps with this many workers, outside view changes);
                // values that are not known yet are missing
    kStopped,   // checkpointed and stopped, as wanted (0 devices); or cancelled and gone
    kFinished,  // body: result.json
    kFailed,    // body.message: the reason; the job will not be restarted
    kError,     // body: kind, place, message, count: something in its folder is not as it should
                // be; once per job and kind (job_errors.h)
    kRestarted  // its supervisor had died; restarted from its checkpoint. body.message: what is
                // known about the cause
  };
  JobNumber job = 0;
  Kind kind = Kind::kHeld;
  int devices = 0;
  nlohmann::json body = nlohmann::json::object();
};

struct LocalExecutorOptions {
  std::string folder;      // job folders are FOLDER/<number>
  std::string supervisor;  // program, called as: supervisor supervise FOLDER/<number>
  Machine machine;
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

// Not thread-safe: the control loop owns it. No call waits for a process, or for anything that a
// job wrote: what is read of each job in one poll() is bounded. If reading a job's folder throws
// all the same, that job ends as failed and the others go on.
class LocalExecutor {
 public:
  static Result<std::unique_ptr<LocalExecutor>> make(LocalExecutorOptions options);
  virtual ~LocalExecutor() = default;

  // Takes over a job of an earlier daemon, with the devices it is recorded to want. Its processes
  // may be running or not. Everything that happened meanwhile comes as notices; the runtime's
  // events start at progress.events_offset. Processes of a job that has ended are killed. A job
  // that occupies a device which this machine no longer has is checkpointed and stopped, and then
  // started again on devices that it has, if some are wanted.
  virtual Status adopt(const JobRecord& job) = 0;
  // From now on the job should have this many devices (and this batch, if > 0). 0: checkpoint, stop
  // and keep the folder. The first call with devices > 0 creates the folder.
  virtual Status want(JobNumber job, const JobDocument& document, int devices,
                      std::int64_t batch) = 0;
  // Ends the job's processes without a result and keeps its folder. Only kHeld, kEvent and kStopped
  // can follow.
  virtual void cancel(JobNumber job) = 0;
  // Forgets a job that has ended and holds nothing, because nobody will ask for it again. False if
  // it is not done with the job yet: there may be notices.
  virtual bool forget(JobNumber job) = 0;
  // Checks all jobs, takes the next steps towards what is wanted and returns what changed. Cheap
  // enough to be called every few tens of milliseconds.
  virtual std::vector<Notice> poll() = 0;

  virtual int held(JobNumber job) const = 0;
  virtual int held() const = 0;
  virtual std::string job_folder(JobNumber job) const = 0;
  // Log files of the job's workers, oldest first.
  virtual std::vector<std::string> log_files(JobNumber job) const = 0;
};

}  // namespace rubato::control
