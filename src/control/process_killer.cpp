#include "control/process_killer.h"

#include <algorithm>

#include "control/as_user.h"
#include "control/supervise.h"

namespace rubato::control {

ProcessKiller::~ProcessKiller() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProcessKiller::kill(const std::string& folder) {
  {
    const MutexLock lock(mutex_);
    jobs_[folder].wanted = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) return;
  const AsUser itself = AsUser::daemon();  // a thread begins with the rights of its creator
  thread_ = std::thread([this] { run(); });
}

bool ProcessKiller::pending(const std::string& folder) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(folder);
  return job != jobs_.end() && (job->second.wanted || job->second.running);
}

std::optional<int> ProcessKiller::take_found(const std::string& folder) {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(folder);
  if (job == jobs_.end() || job->second.wanted || job->second.running) return std::nullopt;
  const std::optional<int> found = job->second.found;
  jobs_.erase(job);
  return found;
}

void ProcessKiller::run() {
  for (;;) {
    std::string folder;
    {
      const MutexLock lock(mutex_);
      auto next = jobs_.end();
      for (;;) {
        if (stopping_) return;
        next = std::find_if(jobs_.begin(), jobs_.end(),
                            [](const auto& entry) { return entry.second.wanted; });
        if (next != jobs_.end()) break;
        changed_.wait(mutex_);
      }
      folder = next->first;
      next->second = {.wanted = false, .running = true};
    }
    int found = 0;
    {
      const AsUser rights = AsUser::owner_of(folder);
      found = kill_supervised(folder);
    }
    const MutexLock lock(mutex_);
    jobs_[folder].running = false;
    jobs_[folder].found = found;
  }
}

}  // namespace rubato::control
