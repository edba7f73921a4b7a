// The progress of a running job, read from its registry and from the shared memory of its workers.
// Both can be written by the job: numbers that cannot be true are left out, and no call maps
// memory, waits, or does more than a bounded amount of work. Costs a few system calls while nothing
// changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "elastic/job/registry.h"
#include "elastic/job/view.h"
#include "elastic/memory/board_glance.h"

namespace rubato::control {

// What names the shared memory of a job, "rubato.TOKEN.": from its job.json; empty if there is none
// or it cannot be one.
std::string memory_prefix(const std::string& folder);

class JobProgress {
 public:
  explicit JobProgress(std::string folder) : folder_(std::move(folder)) {}

  // Call this for the runtime's event `started`, which defines what steps and batches mean. The
  // line must have passed line_problem() (job_schemas.h).
  void started(const nlohmann::json& event);
  // Reads the current progress. True if it should be reported: the workers changed, or there are
  // new steps and the last report is a while ago.
  bool look(elastic::Registry& registry);
  // What is wrong with the job's registry or its memory since the last call; "" if nothing is.
  std::string take_problem() { return std::exchange(problem_, std::string()); }
  // Releases the shared memory after the job's processes have ended.
  void ended();

  std::int64_t steps() const { return steps_; }  // done, as last seen
  // step, total_steps, epoch, epochs, loss, workers, logical_workers, batch, samples_done, step_s.
  // Unknown values are left out. Steps of an adaptive job are counted in its current batch.
  nlohmann::json body() const;

 private:
  bool follow_views(elastic::Registry& registry);
  bool open_board();
  // False if the board is gone.
  bool sample_step();
  void count_samples(std::int64_t completed);

  std::string folder_;  // of the job
  std::string problem_;
  std::int64_t total_steps_ = 0;    // of a consistent job
  std::int64_t total_samples_ = 0;  // of an adaptive one
  std::int64_t data_set_ = 0;       // samples per epoch
  std::int64_t samples_done_ = 0;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t logical_batch_ = 0;  // samples per logical worker and step
  int logical_workers_ = 0;
  elastic::View view_;
  std::optional<elastic::BoardGlance> board_;
  std::optional<elastic::DataBoardGlance> data_board_;  // of an adaptive job
  std::string board_name_;
  std::int64_t completed_ = -1;
  std::int64_t steps_ = 0;
  std::int64_t told_steps_ = -1;
  std::chrono::steady_clock::time_point told_at_;
  std::optional<double> loss_;  // of the latest complete step
  std::int64_t sampled_ = -1;   // latest step whose duration was recorded
  std::deque<double> step_s_;   // step durations with the current number of workers
};

}  // namespace rubato::control
