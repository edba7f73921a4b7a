// Limits how many callers may do something at the same time.
#pragma once

#include <memory>

#include "base/mutex.h"

namespace rubato::api {

// Must outlive all places that it handed out.
class Places {
 public:
  explicit Places(int most) : most_(most) {}

  // A place, returned when the last copy of the pointer is destroyed; null if all places are taken.
  std::shared_ptr<void> enter() {
    const MutexLock lock(mutex_);
    if (taken_ >= most_) return nullptr;
    ++taken_;
    return {this, [](Places* places) {
              const MutexLock leave(places->mutex_);
              --places->taken_;
            }};
  }
  int taken() const {
    const MutexLock lock(mutex_);
    return taken_;
  }
  int most() const { return most_; }

 private:
  const int most_;
  mutable Mutex mutex_;
  int taken_ RUBATO_GUARDED_BY(mutex_) = 0;
};

}  // namespace rubato::api
