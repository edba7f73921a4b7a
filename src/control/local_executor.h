// Runs jobs on this machine. A job's processes belong to its own supervisor (`rubatod supervise
// FOLDER`: the launcher of layer elastic in its own session), which neither needs nor notices the
// daemon: when the daemon dies, jobs go on training, and adopt() finds them again.
//
// What a job should have is *wanted*; what its processes occupy is *held*: the devices that its
// supervisor may use (of every target it may still be obeying) and those of its live processes;
// none when the supervisor and all its processes are gone. A job grows only into devices that
// nobody holds, and only when there are enough for all of what it wants.
// Invariant after every call: nobody holds a device that another one holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/job_document.h"
#include "control/state.h"

namespace rubato::control {

// The devices of this machine.
struct Machine {
  std::string type = "cpu";  // device type: "cpu" or the GPU's name
  int devices = 1;
  std::vector<std::string> visible{};  // CUDA_VISIBLE_DEVICES value of each; empty for CPU slots
};
// CUDA GPUs found (through nvidia-smi; no CUDA library needed), or `cpu_slots` CPU slots if > 0.
Result<Machine> find_machine(int cpu_slots);
// The machine that lines "GPU-<uuid>, <name>" of nvidia-smi describe; no devices when there are no
// lines.
Result<Machine> parse_gpu_list(std::string_view text);

// What has become of a job since the last look. One job's notices are in order.
struct Notice {
  enum class Kind {
    kHeld,      // `devices` are occupied now
    kEvent,     // a line of the runtime's events.jsonl in `body`, with `events_offset` behind it;
                // every line comes once, in order
    kProgress,  // body: step, total_steps, epoch, epochs, loss, workers, logical_workers, batch,
                // step_s (median of recent steps with this many workers, none of them in a view
                // change); what is not known yet is missing
    kStopped,   // checkpointed and stopped, as wanted (0 devices); or cancelled and gone
    kFinished,  // body: result.json
    kFailed,    // body.message: the clear reason; it will not be started again
    kRestarted  // its supervisor had vanished; started again from its checkpoint. body.message:
                // what is known about why
  };
  JobNumber job = 0;
  Kind kind = Kind::kHeld;
  int devices = 0;
  nlohmann::json body = nlohmann::json::object();
};

struct LocalExecutorOptions {
  std::string folder;      // jobs live in FOLDER/<number>
  std::string supervisor;  // program that is called as: supervisor supervise FOLDER/<number>
  Machine machine;
  // A job that does not stop: SIGTERM to its supervisor, then SIGKILL to all its processes. A
  // worker that does not leave when its job shrinks: the same, by the supervisor.
  double term_after_s = 20;
  double kill_after_s = 5;
  // A vanished supervisor is started again after this long, twice as long every next time, at most
  // so many times without a step further than before.
  double restart_after_s = 0.5;
  int most_restarts = 5;
  // Limits of each worker; 0: as the daemon's own.
  std::int64_t worker_memory_bytes = 0;
  std::int64_t worker_files = 0;
  std::int64_t log_bytes = 16 << 20;  // a worker's log is moved aside when it is larger
  int log_files = 3;                  // so many times
};

// Not thread-safe: the control loop owns it. No call waits for a process.
class LocalExecutor {
 public:
  static Result<std::unique_ptr<LocalExecutor>> make(LocalExecutorOptions options);
  virtual ~LocalExecutor() = default;

  // A job from an earlier life of the daemon: its processes may run or not; wanted devices as
  // recorded. Whatever happened meanwhile comes as notices, the runtime's events from
  // progress.events_offset on. Processes of an ended job are ended.
  virtual Status adopt(const JobRecord& job) = 0;
  // From now on the job should have this many devices (and batch, if > 0). 0: stop with a
  // checkpoint and keep the folder. The first call with devices > 0 makes the folder.
  virtual Status want(JobNumber job, const JobDocument& document, int devices,
                      std::int64_t batch) = 0;
  // End it without a result; its folder stays, its processes do not. Only kHeld, kEvent and
  // kStopped come after it.
  virtual void cancel(JobNumber job) = 0;
  // Looks at all jobs, takes the next steps towards what is wanted, and says what changed. Cheap:
  // to be called every few tens of milliseconds.
  virtual std::vector<Notice> poll() = 0;

  virtual int held(JobNumber job) const = 0;
  virtual int held() const = 0;
  virtual std::string job_folder(JobNumber job) const = 0;
  // Log files of the job's workers, oldest first.
  virtual std::vector<std::string> log_files(JobNumber job) const = 0;
};

}  // namespace rubato::control
