// How a newcomer gets the state of a job that trains on: it copies unit by unit from a member's
// memory, each at whatever step that member happens to be, and applies every later step to the
// units it already has from the reduced gradients on the board. Members do nothing for it and never
// wait.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "elastic/board.h"
#include "elastic/donor.h"
#include "elastic/program.h"
#include "elastic/worker_segment.h"

namespace rubato::elastic {

class StateFollower {
 public:
  // What the update of a complete step needs to know; nothing when it is too late to ask.
  using Info = std::function<std::optional<StepInfo>(std::int64_t step)>;
  // `own` is the newcomer's memory, to which the program is bound.
  StateFollower(Program& program, const Board& board, const WorkerSegment& own, Info info);

  // Does a piece of the work: one step applied or one unit copied. False: nothing to do now.
  bool advance(const Donor* donor);
  // Whether the whole state is here, as it is before step version().
  bool complete() const;
  std::int64_t version() const { return next_step_; }
  // How often it had to begin again because it could not keep up.
  int restarts() const { return restarts_; }

 private:
  bool apply_next();
  void restart();

  Program& program_;
  const Board& board_;
  const WorkerSegment& own_;
  Info info_;
  std::int64_t next_step_ = 0;              // the next one to apply
  std::vector<std::int64_t> unit_version_;  // steps contained in the copy; -1: not copied
  std::vector<std::uint8_t> update_;
  std::size_t missing_ = 0;
  std::size_t next_unit_ = 0;
  int restarts_ = 0;
};

}  // namespace rubato::elastic
