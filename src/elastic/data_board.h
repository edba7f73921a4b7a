// Shared memory of an adaptive job beside its board: the data state before and after the current
// step, which samples the last steps used, and with which batch.
//
// Like the private states on the board, everything exists twice: step s reads what has parity s and
// writes what has parity s + 1, so that the input of a step is intact until the step is complete.
// All members of a view write the same state and facts; so it does not matter who of them survives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "elastic/adaptive.h"
#include "elastic/partitions.h"
#include "elastic/shared_memory.h"

namespace rubato::elastic {

struct DataBoardShape {
  int most_logical_workers = 1;
  std::int64_t most_samples = 1;  // in a step
  std::int64_t data_set = 1;      // samples of the data set
};

class DataBoard {
 public:
  static Result<DataBoard> create(const std::string& name, const DataBoardShape& shape);
  static Result<DataBoard> open(const std::string& name);
  // The name of the data board that belongs to a board.
  static std::string name_for(const std::string& board) { return board + ".data"; }

  // Before `step`; who may ask knows that the step before is complete and this one is not.
  DataState state(std::int64_t step) const;
  void put_state(std::int64_t step, const DataState& state) const;

  // Of a complete step; nothing when it was overwritten, which only a newcomer must expect.
  std::optional<StepFacts> facts(std::int64_t step) const;
  void put_facts(const StepFacts& facts) const;

  // The ids of the samples that a step used, logical worker after logical worker.
  std::span<std::int64_t> samples(std::int64_t step) const;

 private:
  struct Header;
  explicit DataBoard(Segment segment);
  Header& header() const;
  std::atomic<std::int64_t>* words(std::int64_t step) const;

  Segment segment_;
  std::size_t state_stride_ = 0;  // words
  std::size_t sample_offset_ = 0;
};

}  // namespace rubato::elastic
