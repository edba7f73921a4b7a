// What turns grants into processes. The live loop tells an executor where each job should have
// devices, and hears from it what happened; it knows nothing of processes, folders or machines.
// LocalExecutor (local_executor.h) runs jobs on this machine, which is its only node.
//
// *Wanted* is the placement that a job should have. *Held* are the devices that its processes
// occupy. A job holds nothing once all its processes are gone. Invariant after every call: no node
// has more devices held than it has, so no device is held by two jobs; a job grows only into
// devices that no job holds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/device_use.h"
#include "control/job_document.h"
#include "control/live_cluster.h"
#include "control/state.h"

namespace rubato::control {

struct FolderOwner;
struct ResultPlace;

// Something that happened to a job since the last poll(). The notices of one job are in order.
struct Notice {
  enum class Kind {
    kHeld,      // the job now holds `devices`, on `nodes`
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
  JobPlacement nodes{};  // of kHeld
  nlohmann::json body = nlohmann::json::object();
};

// What an earlier daemon left of a job.
enum class Remains {
  kNothing,   // it never came so far
  kItsOwn,    // its files, and perhaps processes
  kStrangers  // files of another submission with the same number
};

// The control loop owns it and calls it from one thread, except for the last group. No call waits
// for a process, or for anything that a job wrote.
class JobExecutor {
 public:
  virtual ~JobExecutor() = default;

  // The nodes whose devices jobs can be given, in an order that does not change. They change only
  // in poll(). A node that is not there any more may still be held.
  virtual std::span<const LiveNode> nodes() const = 0;
  // Whether a job that cannot use several nodes (spans_nodes) must get all devices on one.
  virtual bool keeps_some_together() const { return false; }

  // --- Jobs of an earlier daemon
  virtual Remains remains_of(const JobRecord& job) const = 0;
  // The same devices by today's names of nodes: the log may have been written when a node had
  // another name, or none. Devices of nodes that are gone are left out.
  virtual JobPlacement named_today(const JobPlacement& recorded) const = 0;
  // Takes over a job with the devices that it is recorded to want. Its processes may be running or
  // not. Everything that happened meanwhile comes as notices; the runtime's events start at
  // progress.events_offset. Processes of a job that has ended are killed. A job that occupies a
  // device which is not there any more is checkpointed and stopped, and then started again on
  // devices that are, if some are wanted.
  virtual Status adopt(const JobRecord& job) = 0;

  // --- Jobs
  // Makes the place for a job that holds nothing, or checks that what is there is its own. Call it
  // before want(). After kIo, such as on a full disk, it may be tried again.
  virtual Status claim(JobNumber job, const FolderOwner& owner) = 0;
  // From now on the job should have these devices (and this batch, if > 0). None: checkpoint, stop
  // and keep the folder. The first call with devices starts the job.
  virtual Status want(JobNumber job, const JobDocument& document, const JobPlacement& placement,
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

  virtual JobPlacement held(JobNumber job) const = 0;
  virtual int held() const = 0;  // devices of all jobs
  // Whether a program that need not call the runtime has done so.
  virtual bool has_called_runtime(JobNumber job) const = 0;

  // --- From any thread
  // Log files of the job's workers, oldest first. Nothing if what is there is not the job's.
  virtual std::vector<std::string> log_files(const JobRecord& job) const = 0;
  // What drivers tell of the devices now, of those of which they tell something.
  virtual std::vector<DeviceUse> device_use() const { return {}; }
  // Where the job's files are. An error if they are not there any more.
  virtual Result<ResultPlace> result_place(const JobRecord& job) const = 0;
};

}  // namespace rubato::control
