// Answers that go on: a bounded number at a time, and all end when the server does.
#pragma once

#include "api/channel.h"
#include "api/places.h"

namespace rubato::api {

class Streams {
 public:
  explicit Streams(int most) : places_(most) {}

  // A place for one more stream, given back when the pointer goes; null: all are taken, or the
  // server stops.
  std::shared_ptr<void> enter() { return wait(0) ? nullptr : places_.enter(); }
  // Waits this long, or until the server stops; true: it does.
  bool wait(double seconds) {
    const Clock::time_point deadline = after_seconds(seconds);
    const MutexLock lock(mutex_);
    while (!stopping_ && changed_.wait_until(mutex_, deadline)) {
    }
    return stopping_;
  }
  void stop() {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  int open() const { return places_.taken(); }
  int most() const { return places_.most(); }

 private:
  Places places_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
};

}  // namespace rubato::api
