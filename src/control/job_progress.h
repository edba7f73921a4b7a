// The progress of a running job, read from its registry and from the shared memory of its workers.
// Costs one or two system calls while nothing changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "elastic/board.h"
#include "elastic/data_board.h"
#include "elastic/registry.h"
#include "elastic/view.h"

namespace rubato::control {

class JobProgress {
 public:
  // Call this for the runtime's event `started`, which defines what steps and batches mean.
  void started(const nlohmann::json& event);
  // Reads the current progress. True if it should be reported: the workers changed, or there are
  // new steps and the last report is a while ago.
  bool look(elastic::Registry& registry);
  // Releases the shared memory after the job's processes have ended.
  void ended();

  std::int64_t steps() const { return steps_; }  // done, as last seen
  // step, total_steps, epoch, epochs, loss, workers, logical_workers, batch, samples_done, step_s.
  // Unknown values are left out. Steps of an adaptive job are counted in its current batch.
  nlohmann::json body() const;

 private:
  bool follow_views(elastic::Registry& registry);
  void sample_step();
  void count_samples(std::int64_t completed);

  std::int64_t total_steps_ = 0;    // of a consistent job
  std::int64_t total_samples_ = 0;  // of an adaptive one
  std::int64_t data_set_ = 0;       // samples per epoch
  std::int64_t samples_done_ = 0;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t logical_batch_ = 0;  // samples per logical worker and step
  int logical_workers_ = 0;
  elastic::View view_;
  std::optional<elastic::Board> board_;
  std::optional<elastic::DataBoard> data_board_;  // of an adaptive job
  std::string board_name_;
  std::int64_t steps_ = 0;
  std::int64_t told_steps_ = -1;
  std::chrono::steady_clock::time_point told_at_;
  std::optional<double> loss_;  // of the latest complete step
  std::int64_t sampled_ = -1;   // latest step whose duration was recorded
  std::deque<double> step_s_;   // step durations with the current number of workers
};

}  // namespace rubato::control
