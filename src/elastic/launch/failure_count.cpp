#include "elastic/launch/failure_count.h"

#include <fmt/format.h>

#include <algorithm>

#include "elastic/launch/worker_processes.h"

namespace rubato::elastic {

bool FailureCount::start_failed(std::chrono::steady_clock::time_point started) {
  if (started < last_failed_start_) return false;
  last_failed_start_ = Clock::now();
  starts_failed_ = true;
  pause_ = pause_ == Clock::duration::zero() ? first_pause_ : std::min(2 * pause_, kLongestPause);
  next_start_ = last_failed_start_ + pause_;
  return true;
}

std::string FailureCount::text() const {
  std::string text =
      fmt::format("{} failures in a row without progress; the last one: {}", count_, last_reason_);
  constexpr int kLines = 5;
  const std::string lines = last_log_.empty() ? "" : last_lines(last_log_, kLines);
  if (!lines.empty()) text += "; the end of its log:\n" + lines;
  return text;
}

}  // namespace rubato::elastic
