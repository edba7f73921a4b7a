#include "elastic/data/prefetcher.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

namespace rubato::elastic {

Prefetcher::Prefetcher(Program& program) : program_(program), thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::offer(Which which) {
  {
    const MutexLock lock(mutex_);
    offered_ = std::move(which);
  }
  changed_.notify_all();
}

void Prefetcher::run() {
  std::vector<std::int64_t> samples;
  bool complained = false;
  for (;;) {
    Which which;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && !offered_) changed_.wait(mutex_);
      if (stopping_) return;
      which = std::exchange(offered_, nullptr);
    }
    samples.clear();
    which(samples);
    try {
      program_.prefetch(samples);
    } catch (const std::exception& error) {
      // Training does not depend on prefetching.
      if (!complained) fmt::print(stderr, "rubato: prefetch failed: {}\n", error.what());
      complained = true;
    }
  }
}

}  // namespace rubato::elastic
