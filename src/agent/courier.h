// Carries the files of jobs between this node and the daemon, in a thread of its own, so that the
// agent never waits for a transfer. Jobs take turns: a large checkpoint of one does not keep the
// logs of another waiting for long.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "agent/folder_mirror.h"
#include "base/mutex.h"
#include "control/uploads.h"

namespace rubato::agent {

class Courier {
 public:
  // `uploads`: the store of this node.
  Courier(const DaemonAddress& address, const std::string& node, const std::string& token,
          std::shared_ptr<control::Uploads> uploads);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Brings the daemon's copy into the job's folder, which exists, with the rights of its owner, and
  // its upload into the store.
  void fetch(control::JobNumber number, const std::string& folder, const FetchOptions& options);
  // From now on the daemon's copy follows the folder.
  void mirror(control::JobNumber number, const std::string& folder, const MirrorOptions& options);
  // The job's processes have ended: everything that is there now is sent, and then no more.
  void finish(control::JobNumber number);
  // Lets go of the job, whatever was going on. Its folder is used until busy() is false.
  void drop(control::JobNumber number);
  bool busy(control::JobNumber number) const;

  // Whether what was asked for last, fetch() or finish(), is done.
  bool done(control::JobNumber number) const;
  // Why the last try failed; empty: it did not. Transfers are tried again and again.
  std::string problem(control::JobNumber number) const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Task { kFetch, kMirror, kFinish, kNothing };
  struct Job {
    Task task = Task::kNothing;
    std::int64_t stay = 0;  // tells apart the stays of a job on this node
    std::string folder{};
    FetchOptions fetch{};
    std::shared_ptr<FolderMirror> mirror{};
    Clock::time_point next{};
    std::string problem{};
    int failures = 0;
  };

  void run();
  // The job whose turn it is, if there is one.
  control::JobNumber next_job() const RUBATO_REQUIRES(mutex_);
  // True: done; false: there is more.
  Result<bool> work(control::JobNumber number, const Job& job);
  void settle(control::JobNumber number, const Job& was, const Result<bool>& result)
      RUBATO_REQUIRES(mutex_);

  DaemonLink link_;
  const std::shared_ptr<control::Uploads> uploads_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  control::JobNumber busy_ RUBATO_GUARDED_BY(mutex_) = 0;  // the one that is worked on; 0: none
  std::int64_t stays_ RUBATO_GUARDED_BY(mutex_) = 0;
  std::map<control::JobNumber, Job> jobs_ RUBATO_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace rubato::agent
