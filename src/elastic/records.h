// What the leader writes while a job runs: the ledger, checkpoints, view-change events, and at the
// end the result. Exactly one worker leads at a time; a new leader goes on where the files end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "elastic/active_view.h"
#include "elastic/board.h"
#include "elastic/checkpoint.h"
#include "elastic/data_board.h"
#include "elastic/data_order.h"
#include "elastic/job_folder.h"
#include "elastic/ledger.h"
#include "elastic/worker_segment.h"

namespace rubato::elastic {

// Writes checkpoints beside the training: the state is copied while the next step computes and must
// be copied before that step's update; the file is written after that.
class BackgroundCheckpoint {
 public:
  explicit BackgroundCheckpoint(CheckpointFolder folder) : folder_(std::move(folder)) {}
  BackgroundCheckpoint(const BackgroundCheckpoint&) = delete;
  BackgroundCheckpoint& operator=(const BackgroundCheckpoint&) = delete;
  ~BackgroundCheckpoint() { finish(); }

  bool busy() const { return busy_.load(std::memory_order_acquire); }
  // The state before `step`, and behind it what else belongs there. Does nothing while busy.
  using Parts = std::vector<std::vector<std::byte>>;
  void begin(std::int64_t step, const std::string& description, const WorkerSegment& state,
             Parts others);
  void wait_copied();    // before the state changes
  std::string finish();  // waits for the file; the problem of the last write, or ""

 private:
  CheckpointFolder folder_;
  std::thread thread_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> copied_{true};
  std::string problem_;
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
    const DataBoard* data;       // of an adaptive job, else null
    std::int64_t total_steps;    // of a consistent job, else 0
    std::int64_t total_samples;  // of an adaptive job, else 0
  };
  // Also writes the event `started`, which says how long the training is.
  static Result<std::unique_ptr<LeaderRecords>> open(const Context& context,
                                                     std::int64_t next_step);

  bool checkpoint_due(std::int64_t step) const;
  // After a step is complete and applied. For a checkpoint the state must be in the host's memory.
  Status step_done(std::int64_t step, bool checkpoint);
  // After the first complete step of a view: its event.
  void view_works(const ActiveView& view, std::int64_t steps_redone) const;
  // Call before the state changes.
  void before_update() { checkpoint_.wait_copied(); }
  void checkpoint_now(std::int64_t step);  // waits until it is durable
  // Everything is done, after so many steps: result.json.
  Status write_result(const View& view, std::int64_t steps);

 private:
  LeaderRecords(const Context& context, CheckpointFolder folder)
      : context_(context), checkpoint_(std::move(folder)) {}
  Status append_ledger(std::int64_t step);
  // Opens it, or opens it again, with the lines of all steps before `next_step`.
  Status open_ledger(std::int64_t next_step);
  std::int64_t epoch_of(std::int64_t step) const;
  int logical_workers_before(std::int64_t step) const;
  // What a checkpoint has besides the shared state: the private state of each logical worker; of an
  // adaptive job the data state first.
  BackgroundCheckpoint::Parts private_parts(std::int64_t step) const;

  Context context_;
  std::optional<Ledger> ledger_;
  BackgroundCheckpoint checkpoint_;
  std::chrono::steady_clock::time_point last_checkpoint_ = std::chrono::steady_clock::now();
};

// The description that binds a checkpoint and a newcomer to a job.
std::string describe_job(const ProgramShape& shape, const DataOrder::Options& data,
                         std::int64_t total_steps);
// Of an adaptive job: `data` is the order of its first batch.
std::string describe_adaptive_job(const ProgramShape& shape, const DataOrder::Options& data,
                                  LrRule rule, std::int64_t total_samples);

}  // namespace rubato::elastic
