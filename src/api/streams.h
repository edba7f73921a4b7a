// Limits the number of open streams (long-running responses). Ends them when the server stops.
#pragma once

#include "api/channel.h"
#include "api/places.h"

namespace rubato::api {

class Streams {
 public:
  explicit Streams(int most) : places_(most) {}

  // A place for one more stream, returned when the last copy of the pointer is destroyed. Null if
  // all places are taken or the server is stopping.
  std::shared_ptr<void> enter() { return wait(0) ? nullptr : places_.enter(); }
  // Waits this long or until the server stops. True if the server is stopping.
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
