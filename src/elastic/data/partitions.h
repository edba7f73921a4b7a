// Which samples the logical workers of an adaptive job use: partitions handed out on demand.
//
// The permuted order of an epoch (elastic/data/data_order.h) is divided into partitions. A logical
// worker uses its partition from front to back and then takes the next one: one that a departed
// logical worker gave back, else the next untouched one, else, at the end of an epoch, the second
// half of the longest remainder of another. A step thus always has as many samples as its batch.
// Only the last step of an epoch is short; it is divided as evenly as possible.
//
// All of it is one function: from the state before a step and the step's logical workers and batch
// to the shares and the state after it. Every worker computes the same result, so nobody has to
// hand out anything. A repeated step, even by other workers with another batch, starts from the
// same state: no sample is lost or used twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// Positions in the permuted order of an epoch.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// The state of the data between two steps.
struct DataState {
  std::int64_t epoch = 0;
  std::int64_t opened = 0;  // positions below this have been handed out
  // The remainder of each logical worker's partition after the previous step; may be empty.
  std::vector<PositionRange> held = {{}};
  std::vector<PositionRange> returned;  // remainders without an owner, in order of return

  int logical_workers() const { return static_cast<int>(held.size()); }
  friend bool operator==(const DataState&, const DataState&) = default;
};

// Encoded as numbers, for shared memory and checkpoints.
std::vector<std::int64_t> to_words(const DataState& state);
std::size_t most_words(int most_logical_workers);
// Refuses anything that is not a state over this many samples.
Result<DataState> parse_data_state(std::span<const std::int64_t> words, std::int64_t samples);

// What each logical worker uses in a step.
struct StepShares {
  std::int64_t epoch = 0;
  std::int64_t samples = 0;                            // of all logical workers
  std::vector<std::vector<PositionRange>> of_logical;  // each in order of use

  std::int64_t first(int logical) const;  // samples of the lower logical workers
  std::int64_t count(int logical) const;
};

class Partitions {
 public:
  struct Options {
    std::int64_t samples = 1;        // of the data set
    std::int64_t partition = 1;      // positions in a partition
    std::int64_t total_samples = 0;  // of the whole job, which ends there
  };
  explicit Partitions(const Options& options);  // counts must be positive; the total may be 0

  const Options& options() const { return options_; }
  std::int64_t used(const DataState& state) const;  // samples since the start of the job
  bool done(const DataState& state) const { return used(state) >= options_.total_samples; }
  // Runs one step of a job that is not done. O(logical workers), more at the end of an epoch.
  DataState take(const DataState& before, int logical_workers, std::int64_t batch,
                 StepShares& shares) const;

 private:
  std::int64_t left_in_epoch(const DataState& state) const;
  void refill(DataState& state, std::size_t logical) const;

  Options options_;
};

}  // namespace rubato::elastic
