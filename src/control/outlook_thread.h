// Looks ahead for everybody who asks: one outlook at a time, in a thread of its own, shared by all
// callers. However many ask, the thread rests at least kRest times as long as it computed, so it
// uses a few percent of a core at most.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "control/outlook.h"

namespace rubato::control {

class OutlookThread {
 public:
  static constexpr int kRest = 30;
  static constexpr std::chrono::seconds kOldest{60};
  // `look` is called in the thread; it ends early once what it is given returns true.
  using Look = std::function<Result<Outlook>(const std::function<bool()>& should_stop)>;

  explicit OutlookThread(Look look);
  ~OutlookThread();
  OutlookThread(const OutlookThread&) = delete;
  OutlookThread& operator=(const OutlookThread&) = delete;

  // The newest outlook; the next one is begun as soon as the thread has rested. Only if the newest
  // is older than kOldest, because nobody has asked for long, the caller waits, so long at most.
  // Null: there is none, or the scheduler could not decide.
  std::shared_ptr<const Outlook> newest(std::chrono::milliseconds patience);

 private:
  void run();
  bool too_old() const RUBATO_REQUIRES(mutex_);

  const Look look_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  bool wanted_ RUBATO_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Outlook> newest_ RUBATO_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point made_at_ RUBATO_GUARDED_BY(mutex_);
  bool made_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::control
