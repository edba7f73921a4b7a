// The time of the live system: seconds since 1970 that never go back and pass at the pace of real
// time, whatever somebody does to the computer's clock. Durations (device time, stalls, minimum run
// times, reservations) are differences of these times.
#pragma once

#include <functional>

#include "base/mutex.h"

namespace rubato::control {

struct TimeSource {
  std::function<double()> wall;     // seconds since 1970; may be set forward and back
  std::function<double()> elapsed;  // seconds since some moment, including suspension; never set
};
TimeSource computer_time();

class SteadyTime {
 public:
  // Begins with the wall clock's time, or with `at_least` if that is later (the last event of a log
  // that was written before the clock was set back).
  SteadyTime(TimeSource source, double at_least);

  // A difference from the wall clock is made up gradually: the time passes at most kCatchUp faster
  // or slower than real time until both agree. Thread-safe.
  double now() const;
  static constexpr double kCatchUp = 0.1;

 private:
  const TimeSource source_;
  mutable Mutex mutex_;
  mutable double now_ RUBATO_GUARDED_BY(mutex_);
  mutable double elapsed_ RUBATO_GUARDED_BY(mutex_);  // at now_
};

}  // namespace rubato::control
