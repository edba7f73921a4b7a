// std::mutex and std::condition_variable with annotations. With them, clang (-Wthread-safety)
// rejects code that accesses guarded data without holding its lock:
//
//   Mutex mutex_;
//   int count_ RUBATO_GUARDED_BY(mutex_) = 0;
//   void grow() RUBATO_REQUIRES(mutex_);  // the caller holds it
//
// Other compilers ignore the annotations. Clang checks the body of a lambda as a separate function,
// so wait for a condition in a loop rather than with a predicate.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#ifdef __clang__
#define RUBATO_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RUBATO_THREAD_ANNOTATION(x)
#endif

#define RUBATO_GUARDED_BY(mutex) RUBATO_THREAD_ANNOTATION(guarded_by(mutex))
#define RUBATO_REQUIRES(...) RUBATO_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define RUBATO_CAPABILITY(name) RUBATO_THREAD_ANNOTATION(capability(name))
#define RUBATO_SCOPED_CAPABILITY RUBATO_THREAD_ANNOTATION(scoped_lockable)
#define RUBATO_ACQUIRE(...) RUBATO_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RUBATO_RELEASE(...) RUBATO_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace rubato {

class RUBATO_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() RUBATO_ACQUIRE() { mutex_.lock(); }
  void unlock() RUBATO_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex for its lifetime.
class RUBATO_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RUBATO_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RUBATO_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Releases the mutex while waiting. Returns false on timeout; may return true early.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      RUBATO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(lock, deadline);
    lock.release();  // the caller still holds it
    return status == std::cv_status::no_timeout;
  }
  // The same without a deadline.
  void wait(Mutex& mutex) RUBATO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace rubato
