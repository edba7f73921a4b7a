// Limits the number of open streams (long-running responses), of all callers and of each. Ends them
// when the server stops.
#pragma once

#include <map>
#include <string>

#include "api/channel.h"
#include "api/places.h"

namespace rubato::api {

class Streams {
 public:
  // `most` in all; a tenant may have half of them, at least one.
  explicit Streams(int most) : most_each_(most > 1 ? most / 2 : 1), places_(most) {}

  // A place for one more stream of this caller, returned when the last copy of the pointer is
  // destroyed. Null if all places are taken, the caller has as many as it may (`most_own`; 0: the
  // limit of every tenant), or the server is stopping.
  std::shared_ptr<void> enter(const std::string& caller, int most_own) {
    if (wait(0)) return nullptr;
    {
      const MutexLock lock(mutex_);
      if (own_[caller] >= most_of_one(most_own)) return nullptr;
      ++own_[caller];
    }
    std::shared_ptr<void> place = places_.enter();
    if (!place) {
      leave(caller);
      return nullptr;
    }
    return {this, [place, caller](Streams* streams) { streams->leave(caller); }};
  }
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
  int most_of_one(int most_own) const { return most_own > 0 ? most_own : most_each_; }

 private:
  void leave(const std::string& caller) {
    const MutexLock lock(mutex_);
    if (--own_[caller] == 0) own_.erase(caller);
  }

  const int most_each_;
  Places places_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, int> own_ RUBATO_GUARDED_BY(mutex_);  // open streams by caller
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
};

}  // namespace rubato::api
