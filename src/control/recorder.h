// A thread that looks at the daemon once a second and keeps what it sees in a SeriesStore. It costs
// the live loop nothing but a shared lock for a moment, and it does not matter if it falls behind.
// It writes every five seconds, or when somebody asks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "control/series_store.h"

namespace rubato::control {

class Recorder {
 public:
  struct Sources {
    std::function<ClusterSample()> sample;
    std::function<std::vector<JobPoint>()> points;  // of jobs that hold devices
    std::function<Result<std::vector<Event>>(std::int64_t after, int limit)> events;
  };

  // `store` may be null: then nothing is kept, but newest() goes on.
  Recorder(std::unique_ptr<SeriesStore> store, Sources sources);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Null if the store could not be opened.
  const SeriesStore* store() const { return store_.get(); }
  // What was seen, and the events that are in the log now, become visible in store(). For callers
  // that ask about now.
  void catch_up();
  ClusterSample newest() const;

 private:
  void run();
  void look();
  void write() RUBATO_REQUIRES(writing_);
  void note_events() RUBATO_REQUIRES(writing_);

  const std::unique_ptr<SeriesStore> store_;
  const Sources sources_;
  Mutex writing_;                                                   // taken before mutex_
  std::vector<ClusterSample> samples_ RUBATO_GUARDED_BY(writing_);  // not written yet, like points_
  std::vector<JobPoint> points_ RUBATO_GUARDED_BY(writing_);
  mutable Mutex mutex_;
  CondVar stopped_;
  ClusterSample newest_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::control
