// Watches a job from outside: when was each step complete? Looks at the job's board every 0.2 ms
// and does not rely on anything the job reports about itself.
#pragma once

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "elastic/memory/board.h"

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

class StepWatch {
 public:
  explicit StepWatch(rubato::elastic::Board board)
      : board_(std::move(board)), first_(board_.completed() + 1), thread_([this] { run(); }) {}
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;
  ~StepWatch() {
    stop_ = true;
    thread_.join();
  }

  // The next step to complete.
  std::int64_t next() const {
    const std::lock_guard lock(mutex_);
    return first_ + static_cast<std::int64_t>(times_.size());
  }
  // When a step was complete. It must be before next() and not before the watch began.
  double time(std::int64_t step) const {
    const std::lock_guard lock(mutex_);
    return times_.at(static_cast<std::size_t>(step - first_));
  }
  // From the end of the previous step to the end of this one.
  double gap(std::int64_t step) const { return time(step) - time(step - 1); }
  double median_gap(std::int64_t begin, std::int64_t end) const {
    std::vector<double> gaps;
    for (std::int64_t s = std::max(begin, first_ + 1); s < std::min(end, next()); ++s) {
      gaps.push_back(gap(s));
    }
    return median(std::move(gaps));
  }
  double longest_gap(std::int64_t begin, std::int64_t end) const {
    double longest = 0;
    for (std::int64_t s = std::max(begin, first_ + 1); s < std::min(end, next()); ++s) {
      longest = std::max(longest, gap(s));
    }
    return longest;
  }
  // Whether a complete step became incomplete again.
  bool went_back() const { return went_back_; }

 private:
  void run() {
    prctl(PR_SET_TIMERSLACK, 1000);  // wake up when asked, not 50 us later
    // Nor a time slice later, if every core is busy with the job; needs a privilege.
    const sched_param first_in_line{.sched_priority = 1};
    static_cast<void>(sched_setscheduler(0, SCHED_RR, &first_in_line));
    std::int64_t newest = first_ - 1;
    while (!stop_) {
      const std::int64_t now = board_.completed();
      if (now < newest) went_back_ = true;
      if (now > newest) {
        const double at = seconds_now();
        const std::lock_guard lock(mutex_);
        for (; newest < now; ++newest) times_.push_back(at);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  rubato::elastic::Board board_;
  std::int64_t first_;
  mutable std::mutex mutex_;
  std::vector<double> times_;
  std::atomic<bool> went_back_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bench
