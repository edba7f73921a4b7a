// Shared memory of an adaptive job beside its board: the data state before and after the current
// step, and the samples and batch of the last steps.
//
// Like the private states on the board, everything exists twice: step s reads the copy of parity s
// and writes the copy of parity s + 1, so the input of a step is intact until the step is complete.
// All members of a view write the same state and facts, so it does not matter which of them
// survive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/data/adaptive.h"
#include "elastic/data/partitions.h"
#include "elastic/memory/shared_memory.h"

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

  // The data state before `step`. Call it only if the previous step is complete and this one is
  // not.
  DataState state(std::int64_t step) const;
  void put_state(std::int64_t step, const DataState& state) const;

  // The facts of a complete step; nothing if they were overwritten, which can happen only to a
  // newcomer.
  std::optional<StepFacts> facts(std::int64_t step) const;
  void put_facts(const StepFacts& facts) const;

  // The ids of the samples that a step used, ordered by logical worker.
  std::span<std::int64_t> samples(std::int64_t step) const;
  std::int64_t most_samples() const;

  // --- For other nodes ---
  // What a step leaves here: its facts, its samples and the state after it; always as many bytes.
  // The facts are whole or say that they were overwritten. The rest may be torn if the step after
  // the next one has begun.
  std::size_t step_bytes() const;
  std::vector<std::byte> copy_step(std::int64_t step) const;
  // The same on another node; the facts, or all of it. Facts that were overwritten are left out.
  // False: it cannot be true, and nothing was changed.
  bool put_step(std::int64_t step, std::span<const std::byte> bytes, bool whole) const;

  struct Header;  // elastic/memory/board_layout.h

 private:
  explicit DataBoard(Segment segment);
  static std::size_t bytes_of(const DataBoardShape& shape);
  Header& header() const;
  std::atomic<std::int64_t>* words(std::int64_t step) const;

  Segment segment_;
  std::size_t state_stride_ = 0;  // words
  std::size_t sample_offset_ = 0;
};

}  // namespace rubato::elastic
