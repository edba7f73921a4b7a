// The registries of jobs that span nodes, when a daemon shares its log: each new version is decided
// in etcd, in a transaction that compares the claim of the leader, and then written into the
// daemon's copy of the job's folder, from where it is read. So a daemon that does not lead any more
// decides no view, and whoever leads next goes on with the same views.
//
// Keys: job/UID/RECORD/VERSION, and job/UID/home/1, the node on which the job was begun.
// What is read may be old, which the readers of a registry allow for.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "control/standby/leadership.h"
#include "elastic/job/registry.h"

namespace rubato::control {

class SharedRegistries {
 public:
  // `log` is for these calls alone: a caller of a registry waits for less long than the log does.
  SharedRegistries(std::shared_ptr<SharedLog> log, std::shared_ptr<Leadership> leadership)
      : log_(std::move(log)), leadership_(std::move(leadership)) {}

  // The registry of a job. `folder` is the daemon's copy of the job's folder. This object must
  // outlive it.
  std::unique_ptr<elastic::Registry> open(const std::string& uid, const std::string& folder);
  // The node on which the job was begun last; empty: none, or it is not known.
  std::string home(const std::string& uid);
  // The job begins on this node. What an earlier try has left as its result goes.
  Status begin(const std::string& uid, const std::string& folder, const std::string& home);
  // Nobody asks for this job any more.
  void forget(const std::string& uid);

 private:
  class One;
  using Clock = std::chrono::steady_clock;

  // Brings the folder to what etcd has, and the other way round, once for each job; and after a
  // call whose outcome is unknown.
  Status bring(const std::string& uid, const std::string& folder);
  Result<bool> swap(const std::string& uid, const std::string& folder, const std::string& name,
                    std::int64_t expected, const std::string& value);
  // Of a call that failed: others are not tried for a moment, so that nobody waits in vain.
  Error away(const std::string& problem);
  Status check();
  void forget_files(const std::string& uid);

  const std::shared_ptr<SharedLog> log_;
  const std::shared_ptr<Leadership> leadership_;
  Mutex mutex_;
  std::set<std::string> brought_ RUBATO_GUARDED_BY(mutex_);
  Clock::time_point away_until_ RUBATO_GUARDED_BY(mutex_){};
};

}  // namespace rubato::control
