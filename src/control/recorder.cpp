#include "control/recorder.h"

#include <algorithm>
#include <iterator>

namespace rubato::control {

namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr std::size_t kWriteEvery = 5;  // looks
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
  const MutexLock lock(writing_);
  if (store_) write();
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
  std::vector<JobPoint> points = sources_.points();
  const MutexLock lock(writing_);
  samples_.push_back(sample);
  points_.insert(points_.end(), std::make_move_iterator(points.begin()),
                 std::make_move_iterator(points.end()));
  if (samples_.size() >= kWriteEvery) write();
  note_events();
}

void Recorder::catch_up() {
  if (!store_) return;
  const MutexLock lock(writing_);
  write();
  note_events();
}

// What cannot be written now (a full disk) is missing later; nothing depends on it.
void Recorder::write() {
  static_cast<void>(store_->add(samples_, points_));
  samples_.clear();
  points_.clear();
}

void Recorder::note_events() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
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
