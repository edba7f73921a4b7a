#include "elastic/prefetcher.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

namespace rubato::elastic {

Prefetcher::Prefetcher(Program& program) : program_(program), thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::offer(Which which) {
  {
    const std::lock_guard lock(mutex_);
    offered_ = std::move(which);
  }
  changed_.notify_all();
}

void Prefetcher::run() {
  std::vector<std::int64_t> samples;
  bool complained = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || offered_; });
    if (stopping_) return;
    const Which which = std::exchange(offered_, nullptr);
    lock.unlock();
    samples.clear();
    which(samples);
    try {
      program_.prefetch(samples);
    } catch (const std::exception& error) {
      // Training does not depend on it.
      if (!complained) fmt::print(stderr, "rubato: prefetch failed: {}\n", error.what());
      complained = true;
    }
    lock.lock();
  }
}

}  // namespace rubato::elastic
