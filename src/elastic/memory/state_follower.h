// How a newcomer gets the state of a job that keeps training. It copies unit by unit from a
// member's memory, each at whatever step that member is at, and applies every later step to the
// units it already has, from the reduced gradients on the board. Members do nothing for it and
// never wait.
//
// Unit 0 is copied first and never from a later step than another unit. So whenever a unit is
// updated, unit 0 is at the same step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "elastic/memory/board.h"
#include "elastic/memory/donor.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class StateFollower {
 public:
  // The information that the update of a complete step needs; nothing if it is no longer available.
  using Info = std::function<std::optional<StepInfo>(std::int64_t step)>;
  // `own` is the newcomer's memory; the program is bound to it.
  StateFollower(Program& program, const Board& board, const WorkerSegment& own, Info info);

  // Does one piece of work: applies a step or copies a unit. False: nothing to do now.
  bool advance(const Donor* donor);
  // Whether the whole state is here, as it is before step version().
  bool complete() const;
  std::int64_t version() const { return next_step_; }
  // Whether it has applied a step to a unit since the last restart.
  bool updated() const { return updated_; }
  // How often it had to start over because it could not keep up.
  int restarts() const { return restarts_; }

 private:
  bool apply_next();
  void restart();

  Program& program_;
  const Board& board_;
  const WorkerSegment& own_;
  Info info_;
  std::int64_t next_step_ = 0;              // the next step to apply
  std::vector<std::int64_t> unit_version_;  // the step the copy has reached; -1: not copied
  std::vector<std::uint8_t> update_;
  std::int64_t newest_copy_ = 0;  // the newest version that was copied
  std::size_t missing_ = 0;
  std::size_t next_unit_ = 0;
  bool updated_ = false;  // since the last restart
  int restarts_ = 0;
};

}  // namespace rubato::elastic
