// Counts the failures of a job's workers and decides how long to wait before the next start, and
// when to give the job up.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace rubato::elastic {

class FailureCount {
 public:
  explicit FailureCount(double first_pause_s)
      : first_pause_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(first_pause_s))) {}

  // `log` is the log of the worker that failed, or empty.
  void add(std::string reason, std::string log) {
    ++count_;
    last_reason_ = std::move(reason);
    last_log_ = std::move(log);
  }
  void progress() { count_ = 0; }  // the job has got further than ever before
  bool too_many() const { return count_ >= kMost; }
  std::string text() const;  // why the job is given up, with the last lines of the log

  // A worker that was started at this time ended before it was a member of any view: the next start
  // waits, twice as long as last time. False if it was started together with one that was counted.
  bool start_failed(std::chrono::steady_clock::time_point started);
  void worker_joined() {
    starts_failed_ = false;
    pause_ = {};
  }
  void forget_pause() { next_start_ = {}; }
  bool starts_failed() const { return starts_failed_; }  // the newest ones
  bool may_start() const { return Clock::now() >= next_start_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMost = 5;
  static constexpr Clock::duration kLongestPause = std::chrono::seconds(30);

  Clock::duration first_pause_;
  int count_ = 0;  // since the job last made progress
  std::string last_reason_;
  std::string last_log_;
  bool starts_failed_ = false;
  Clock::duration pause_{};
  Clock::time_point next_start_;
  Clock::time_point last_failed_start_;
};

}  // namespace rubato::elastic
