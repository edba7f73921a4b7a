// What the leader writes while a job runs: the ledger, checkpoints, view-change events, and finally
// the result. Exactly one worker leads at a time; a new leader continues where the files end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "elastic/data/data_order.h"
#include "elastic/job/checkpoint.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/ledger.h"
#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"
#include "elastic/memory/worker_segment.h"

namespace rubato::elastic {

// Writes checkpoints in the background. The state is copied while the next step computes, and the
// copy must be complete before that step's update. The file is written afterwards.
class BackgroundCheckpoint {
 public:
  // `tell` hears of failed writes, in another thread: once of each kind until one succeeds.
  BackgroundCheckpoint(CheckpointFolder folder, std::function<void(const std::string&)> tell)
      : folder_(std::move(folder)), tell_(std::move(tell)) {}
  BackgroundCheckpoint(const BackgroundCheckpoint&) = delete;
  BackgroundCheckpoint& operator=(const BackgroundCheckpoint&) = delete;
  ~BackgroundCheckpoint() { finish(); }

  bool busy() const { return busy_.load(std::memory_order_acquire); }
  // Starts a checkpoint of the state before `step`, followed by `others`. Does nothing while busy.
  using Parts = std::vector<std::vector<std::byte>>;
  void begin(std::int64_t step, const std::string& description, const WorkerSegment& state,
             Parts others);
  void wait_copied();  // call before the state changes
  void finish();       // waits for the file

 private:
  CheckpointFolder folder_;
  std::thread thread_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> copied_{true};
  std::function<void(const std::string&)> tell_;
  std::set<std::string> told_;  // used by the thread
};

class LeaderRecords {
 public:
  struct Context {
    const JobFolder* folder;
    const JobSettings* settings;
    std::string description;
    const Board* board;
    const WorkerSegment* state;
    const DataOrder* order;
    const DataBoard* data;       // adaptive job, else null
    std::int64_t total_steps;    // consistent job, else 0
    std::int64_t total_samples;  // adaptive job, else 0
    std::vector<TensorPlace> tensors;
  };
  // Also writes the event `started`, which contains the length of the training.
  static Result<std::unique_ptr<LeaderRecords>> open(const Context& context,
                                                     std::int64_t next_step);

  bool checkpoint_due(std::int64_t step) const;
  // Call after a step is complete and applied. For a checkpoint, the state must be in host memory.
  Status step_done(std::int64_t step, bool checkpoint);
  // Call after the first complete step of a view; writes the view's event. In that step, this
  // worker waited `waited_us` longer for the others than before.
  void view_works(const ActiveView& view, std::int64_t steps_redone, std::int64_t waited_us) const;
  // Call before the state changes.
  void before_update() { checkpoint_.wait_copied(); }
  void checkpoint_now(std::int64_t step);  // returns when it is durable
  // Call at the end of the job, after `steps` steps; writes result.json.
  Status write_result(const View& view, std::int64_t steps);

 private:
  LeaderRecords(const Context& context, CheckpointFolder folder);
  Status append_ledger(std::int64_t step);
  // Opens or reopens the ledger with the lines of all steps before `next_step`.
  Status open_ledger(std::int64_t next_step);
  std::int64_t epoch_of(std::int64_t step) const;
  int logical_workers_before(std::int64_t step) const;
  // What a checkpoint contains besides the shared state: the private state of each logical worker,
  // preceded by the data state for an adaptive job.
  BackgroundCheckpoint::Parts private_parts(std::int64_t step) const;

  Context context_;
  std::optional<Ledger> ledger_;
  BackgroundCheckpoint checkpoint_;
  std::chrono::steady_clock::time_point last_checkpoint_ = std::chrono::steady_clock::now();
};

}  // namespace rubato::elastic
