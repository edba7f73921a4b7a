// std::shared_mutex with the annotations of base/mutex.h:
//
//   SharedMutex mutex_;
//   int count_ RUBATO_GUARDED_BY(mutex_) = 0;
//   int next() const RUBATO_REQUIRES_SHARED(mutex_);  // the caller holds it, at least for reading
#pragma once

#include <shared_mutex>

#include "base/mutex.h"

#define RUBATO_REQUIRES_SHARED(...) \
  RUBATO_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define RUBATO_ACQUIRE_SHARED(...) RUBATO_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define RUBATO_RELEASE_SHARED(...) RUBATO_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))

namespace rubato {

// Any number of readers, or one writer.
class RUBATO_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() RUBATO_ACQUIRE() { mutex_.lock(); }
  void unlock() RUBATO_RELEASE() { mutex_.unlock(); }
  void lock_shared() RUBATO_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() RUBATO_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds the mutex for writing for its lifetime.
class RUBATO_SCOPED_CAPABILITY WriteLock {
 public:
  explicit WriteLock(SharedMutex& mutex) RUBATO_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriteLock() RUBATO_RELEASE() { mutex_.unlock(); }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Holds the mutex for reading for its lifetime.
class RUBATO_SCOPED_CAPABILITY ReadLock {
 public:
  explicit ReadLock(SharedMutex& mutex) RUBATO_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReadLock() RUBATO_RELEASE() { mutex_.unlock_shared(); }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace rubato
