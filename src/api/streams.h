// Answers that go on: a bounded number at a time, and all end when the server does.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

namespace rubato::api {

class Streams {
 public:
  explicit Streams(int most) : most_(most) {}

  // A place for one more stream, given back when the pointer goes; null: all are taken.
  std::shared_ptr<void> enter() {
    const std::lock_guard lock(mutex_);
    if (open_ >= most_ || stopping_) return nullptr;
    ++open_;
    return {this, [](Streams* streams) {
              const std::lock_guard leave(streams->mutex_);
              --streams->open_;
            }};
  }
  // Waits this long, or until the server stops; true: it does.
  bool wait(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [&] { return stopping_; });
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  int open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  int most() const { return most_; }

 private:
  const int most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
  bool stopping_ = false;
};

}  // namespace rubato::api
