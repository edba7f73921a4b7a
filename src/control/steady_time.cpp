#include "control/steady_time.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace rubato::control {

TimeSource computer_time() {
  return {.wall =
              [] {
                return std::chrono::duration<double>(
                           std::chrono::system_clock::now().time_since_epoch())
                    .count();
              },
          .elapsed =
              [] {
                timespec now{};
                clock_gettime(CLOCK_BOOTTIME, &now);
                return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
              }};
}

SteadyTime::SteadyTime(TimeSource source, double at_least)
    : source_(std::move(source)),
      now_(std::max(source_.wall(), at_least)),
      elapsed_(source_.elapsed()) {}

double SteadyTime::now() const {
  const MutexLock lock(mutex_);
  const double elapsed = source_.elapsed();
  const double passed = std::max(0.0, elapsed - elapsed_);
  const double difference = source_.wall() - (now_ + passed);
  now_ += passed + std::clamp(difference, -kCatchUp * passed, kCatchUp * passed);
  elapsed_ = std::max(elapsed_, elapsed);
  return now_;
}

}  // namespace rubato::control
