// Tells a program which samples it will probably use next, on a thread of its own. Only the newest
// offer counts: a program that is slow to prefetch misses some, and never keeps the training
// waiting.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "elastic/program.h"

namespace rubato::elastic {

class Prefetcher {
 public:
  explicit Prefetcher(Program& program);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();  // waits for a call that runs

  // `which` appends the ids; it runs on the thread.
  using Which = std::function<void(std::vector<std::int64_t>& samples)>;
  void offer(Which which);

 private:
  void run();

  Program& program_;
  Mutex mutex_;
  CondVar changed_;
  Which offered_ RUBATO_GUARDED_BY(mutex_);  // empty: none waits
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::elastic
