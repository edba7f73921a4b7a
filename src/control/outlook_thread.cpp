#include "control/outlook_thread.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace rubato::control {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kShortestRest = std::chrono::seconds(2);

}  // namespace

OutlookThread::OutlookThread(Look look) : look_(std::move(look)), thread_([this] { run(); }) {}

OutlookThread::~OutlookThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const Outlook> OutlookThread::newest(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const MutexLock lock(mutex_);
  wanted_ = true;
  changed_.notify_all();
  while (too_old() && !stopping_ && changed_.wait_until(mutex_, deadline)) {
  }
  return too_old() ? nullptr : newest_;
}

bool OutlookThread::too_old() const { return !made_ || Clock::now() - made_at_ > kOldest; }

void OutlookThread::run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!wanted_ && !stopping_) changed_.wait(mutex_);
      if (stopping_) return;
      wanted_ = false;
    }
    const auto began = Clock::now();
    std::shared_ptr<const Outlook> made;
    try {
      auto looked = look_([this] {
        const MutexLock lock(mutex_);
        return stopping_;
      });
      if (looked.ok()) made = std::make_shared<const Outlook>(std::move(*looked));
    } catch (const std::exception&) {
      made = nullptr;  // a policy that fails here fails in the live loop, which says so
    }
    const auto rest_until =
        Clock::now() + std::max<Clock::duration>(kShortestRest, kRest * (Clock::now() - began));
    const MutexLock lock(mutex_);
    newest_ = std::move(made);
    made_at_ = Clock::now();
    made_ = true;
    changed_.notify_all();
    while (!stopping_ && Clock::now() < rest_until) changed_.wait_until(mutex_, rest_until);
    if (stopping_) return;
  }
}

}  // namespace rubato::control
