// When a decision has to end. A policy that searches looks at it now and then and returns the best
// plan it has found so far; a solver gets the time that is left. A decision without a limit does
// not depend on how fast the machine is.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/ids.h"

namespace rubato {

class DecisionLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit DecisionLimit(Clock::time_point until) : until_(until) {}

  // Nobody needs the plan any more. From any thread.
  void hurry() { hurried_ = true; }
  bool reached() const { return hurried_ || Clock::now() >= until_; }
  Seconds left_s() const {
    if (hurried_) return 0;
    return std::max(0.0, std::chrono::duration<double>(until_ - Clock::now()).count());
  }

 private:
  const Clock::time_point until_;
  std::atomic<bool> hurried_{false};
};

}  // namespace rubato
