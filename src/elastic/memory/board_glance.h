// A look at the boards of a job from outside, by a process that does not trust its workers: whoever
// can write the memory may change or shorten it at any moment, and touching a mapping that was
// shortened kills. So nothing is mapped: every call reads a few bytes (pread) and checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/data/adaptive.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class BoardGlance {
 public:
  // kNotFound: there is no memory of this name; kInvalidInput: it is not a board of this version.
  static Result<BoardGlance> open(const std::string& name);

  struct Progress {
    std::int64_t completed = -1;  // newest complete step; -1 before the first
    int watchers = 0;             // newcomers that follow
  };
  // Nothing if the board is gone or contains what cannot be.
  std::optional<Progress> progress() const;
  // Duration of the last step of a member of this view; nothing if it is not known or impossible.
  std::optional<std::int64_t> step_us(std::int64_t view, int member) const;
  // See mean_loss() in elastic/memory/board.h. `logical_workers` is at most kMostLogicalWorkers.
  std::optional<double> mean_loss(int logical_workers, std::int64_t step) const;

 private:
  explicit BoardGlance(Descriptor memory) : memory_(std::move(memory)) {}
  Descriptor memory_;
};

// The facts of a complete step on the data board of this name (elastic/memory/data_board.h), if
// they can be true.
class DataBoardGlance {
 public:
  static Result<DataBoardGlance> open(const std::string& name);
  std::optional<StepFacts> facts(std::int64_t step) const;

 private:
  explicit DataBoardGlance(Descriptor memory) : memory_(std::move(memory)) {}
  Descriptor memory_;
};

}  // namespace rubato::elastic
