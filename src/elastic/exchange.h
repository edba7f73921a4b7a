// The exchange of a step: from the partial sums that every member of a view has exported to the
// reduced gradient on the board, which all of them read in place.
#pragma once

#include <cstdint>
#include <functional>

#include "elastic/active_view.h"
#include "elastic/board.h"

namespace rubato::elastic {

// What may stop a worker in the middle of a step.
class ExchangeGuard {
 public:
  // True when the exchange must be given up.
  virtual bool interrupted() const = 0;
  // Runs a publication on the board and pulses it, unless interrupted (false): both in one, so that
  // a worker that has promised to publish nothing more does not.
  virtual bool publish(const std::function<void()>& write) = 0;

 protected:
  ~ExchangeGuard() = default;
};

// Says that the step is complete, unless that is known.
void mark_completed(const Board& board, std::int64_t step);

// Waits for all members, sums this worker's slice, waits for the slices of the others. Afterwards
// (true) board.gradient(step) is `scale` times the sum of all roots. False: interrupted.
bool exchange(const Board& board, const ActiveView& view, std::int64_t step, float scale,
              ExchangeGuard& guard);

}  // namespace rubato::elastic
