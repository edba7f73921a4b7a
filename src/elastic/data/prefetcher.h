// Tells a program which samples it will probably use next, on a separate thread. Only the newest
// offer counts: a program that prefetches slowly misses some offers and never delays training.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class Prefetcher {
 public:
  explicit Prefetcher(Program& program);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();  // waits for a call in progress

  // `which` appends the ids; it runs on the prefetch thread.
  using Which = std::function<void(std::vector<std::int64_t>& samples)>;
  void offer(Which which);

 private:
  void run();

  Program& program_;
  Mutex mutex_;
  CondVar changed_;
  Which offered_ RUBATO_GUARDED_BY(mutex_);  // empty: no offer is waiting
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::elastic
