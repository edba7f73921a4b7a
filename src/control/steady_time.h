// The time of the live system: seconds since 1970 that never go back and pass at the pace of real
// time, whatever somebody does to the computer's clock. Durations (device time, stalls, minimum run
// times, reservations) are differences of these times. Limits that must be exact are differences of
// steady(), which no step of the clock changes at all.
#pragma once

#include <functional>
#include <string>

#include "base/mutex.h"

namespace rubato::control {

struct TimeSource {
  std::function<double()> wall;     // seconds since 1970; may be set forward and back
  std::function<double()> elapsed;  // seconds since some moment, including suspension; never set
  std::string boot{};               // as long as it is the same, so is that moment
};
TimeSource computer_time();

class SteadyTime {
 public:
  // Begins with the wall clock's time, or with `at_least` if that is later (the last event of a log
  // that was written before the clock was set back). `file` carries steady() from one process to
  // the next; empty, missing or damaged: it begins like now().
  SteadyTime(TimeSource source, double at_least, const std::string& file = "");

  // A difference from the wall clock is made up gradually: the time passes at most kCatchUp faster
  // or slower than real time until both agree. Thread-safe.
  double now() const;
  static constexpr double kCatchUp = 0.1;
  // Seconds that only real time moves, also across restarts of the program. Across a restart of the
  // computer they go on as now() does. Thread-safe.
  double steady() const;

 private:
  const TimeSource source_;
  mutable Mutex mutex_;
  mutable double now_ RUBATO_GUARDED_BY(mutex_);
  mutable double elapsed_ RUBATO_GUARDED_BY(mutex_);  // at now_
  double steady_ahead_ = 0;                           // of `elapsed`
};

}  // namespace rubato::control
