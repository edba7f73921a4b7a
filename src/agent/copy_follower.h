// Keeps what a daemon that stands by has of jobs like what the leader has: the copies of jobs'
// folders (control/cluster/job_copy.h) and uploads of jobs that have not ended. A thread does this,
// for the jobs in the daemon's own store.
//
// It follows: what has changed at the leader a moment ago may be missing when the leader is lost. A
// job that is on nodes loses nothing by that, since its nodes send what is missing to whoever
// leads. One that is on no node, because it is paused or waits, continues from the newest
// checkpoint that is here. Files arrive in an order in which a job can continue from them
// (folder_mirror.h).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "agent/daemon_link.h"
#include "base/mutex.h"
#include "control/cluster/job_copy.h"
#include "control/state.h"
#include "control/uploads.h"

namespace rubato::agent {

class CopyFollower {
 public:
  // `folder` is the state folder. `token` is the administrator's.
  CopyFollower(std::string folder, std::string token, std::string ca_file);
  CopyFollower(const CopyFollower&) = delete;
  CopyFollower& operator=(const CopyFollower&) = delete;
  ~CopyFollower();

  // Whom to follow, and in which history (Store::identity); an empty URL: nobody. Quick.
  void follow(const std::string& url, const std::string& store);
  // Nothing is written any more once this returns. Quick: the thread ends when its last call does.
  void stop();

 private:
  struct Whom {
    std::string url{};
    std::string store{};
  };

  void run();
  void round(DaemonLink& link, const std::string& store);
  Status copy(DaemonLink& link, const control::JobRecord& job, const std::string& store);
  Status fetch(DaemonLink& link, control::JobNumber job, control::JobCopy& copy,
               const std::string& folder, const control::CopiedFile& file, std::int64_t from);
  // Writes, unless it was stopped.
  Status write(const std::function<Status()>& what);
  bool stopping() const;

  const std::string folder_;
  const std::string token_;
  const std::string ca_file_;
  control::Uploads uploads_;
  std::set<std::string> done_;       // the thread's: uids of ended jobs of which nothing is missing
  control::JobNumber all_done_ = 0;  // up to this number
  Mutex writing_;
  mutable Mutex mutex_;
  CondVar changed_;
  Whom whom_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::agent
