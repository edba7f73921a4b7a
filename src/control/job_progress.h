// How far a running job is, read from its registry and from the memory that its workers share.
// Costs a system call or two while nothing changes.
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
  // The runtime's event `started` says what the numbers mean.
  void started(const nlohmann::json& event);
  // Looks again. True when there is something worth telling: other workers, or steps and the last
  // time is a while ago.
  bool look(elastic::Registry& registry);
  // The job has no processes: lets go of their memory.
  void ended();

  std::int64_t steps() const { return steps_; }  // done, as last seen
  // step, total_steps, epoch, epochs, loss, workers, logical_workers, batch, samples_done, step_s;
  // what is not known is left out. The steps of an adaptive job are those of its present batch.
  nlohmann::json body() const;

 private:
  bool follow_views(elastic::Registry& registry);
  void sample_step();
  void count_samples(std::int64_t completed);

  std::int64_t total_steps_ = 0;    // of a consistent job
  std::int64_t total_samples_ = 0;  // of an adaptive one
  std::int64_t data_set_ = 0;       // samples of an epoch
  std::int64_t samples_done_ = 0;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t logical_batch_ = 0;  // samples of a logical worker in a step
  int logical_workers_ = 0;
  elastic::View view_;
  std::optional<elastic::Board> board_;
  std::optional<elastic::DataBoard> data_board_;  // of an adaptive job
  std::string board_name_;
  std::int64_t steps_ = 0;
  std::int64_t told_steps_ = -1;
  std::chrono::steady_clock::time_point told_at_;
  std::optional<double> loss_;  // of the newest complete step
  std::int64_t sampled_ = -1;   // newest step whose duration was noted
  std::deque<double> step_s_;   // durations with as many workers as now
};

}  // namespace rubato::control
