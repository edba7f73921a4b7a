// The exchange of a step: turns the partial sums that every member of a view has exported into the
// reduced gradient on the board, which all members read in place.
#pragma once

#include <cstdint>
#include <functional>

#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

// What may stop a worker in the middle of a step.
class ExchangeGuard {
 public:
  // True if the exchange must be abandoned.
  virtual bool interrupted() const = 0;
  // Runs a publication on the board and pulses the board, unless interrupted (returns false). Check
  // and publication are one operation, so a worker that has promised to publish nothing more
  // publishes nothing.
  virtual bool publish(const std::function<void()>& write) = 0;

 protected:
  ~ExchangeGuard() = default;
};

// Records that the step is complete, unless that is already known.
void mark_completed(const Board& board, std::int64_t step);

// Waits for all members, sums this worker's slice, and waits for the slices of the others. Returns
// true when board.gradient(step) is `scale` times the sum of all roots, false if interrupted.
bool exchange(const Board& board, const ActiveView& view, std::int64_t step, float scale,
              ExchangeGuard& guard);

}  // namespace rubato::elastic
