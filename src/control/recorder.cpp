#include "control/recorder.h"

#include <algorithm>

namespace rubato::control {

namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr int kEventsAtOnce = 1000;

}  // namespace

Recorder::Recorder(std::unique_ptr<SeriesStore> store, Sources sources)
    : store_(std::move(store)), sources_(std::move(sources)), thread_([this] { run(); }) {}

Recorder::~Recorder() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void Recorder::run() {
  auto next = std::chrono::steady_clock::now();
  for (;;) {
    look();
    next = std::max(next + kLookEvery, std::chrono::steady_clock::now());
    const MutexLock lock(mutex_);
    while (!stopping_ && stopped_.wait_until(mutex_, next)) {
    }
    if (stopping_) return;
  }
}

void Recorder::look() {
  const ClusterSample sample = sources_.sample();
  {
    const MutexLock lock(mutex_);
    newest_ = sample;
  }
  if (!store_) return;
  // What cannot be written now (a full disk) is missing later; nothing depends on it.
  static_cast<void>(store_->add(sample, sources_.points()));
  catch_up();
}

void Recorder::catch_up() {
  if (!store_) return;
  const MutexLock lock(noting_);
  for (;;) {
    {
      const MutexLock state(mutex_);
      if (stopping_) return;
    }
    const auto events = sources_.events(store_->seen(), kEventsAtOnce);
    if (!events.ok() || events->empty() || !store_->note(*events).ok()) return;
    if (std::ssize(*events) < kEventsAtOnce) return;
  }
}

ClusterSample Recorder::newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

}  // namespace rubato::control
