// Ends jobs' processes in a thread of its own: that searches all processes of the machine and waits
// for moments, which the live loop must not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace rubato::control {

class ProcessKiller {
 public:
  ProcessKiller() = default;
  ~ProcessKiller();  // waits for the kill that is being done; others are forgotten
  ProcessKiller(const ProcessKiller&) = delete;
  ProcessKiller& operator=(const ProcessKiller&) = delete;

  // Soon calls kill_supervised() for the job's folder, once if it is asked for again before.
  // Nothing may start processes in that folder while it is pending().
  void kill(const std::string& folder);
  bool pending(const std::string& folder) const;
  // How many processes the last kill found, if one has ended since the last call.
  std::optional<int> take_found(const std::string& folder);

 private:
  void run();

  struct Job {
    bool wanted = false;
    bool running = false;
    std::optional<int> found{};
  };
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::map<std::string, Job> jobs_ RUBATO_GUARDED_BY(mutex_);
  std::thread thread_;  // since the first kill
};

}  // namespace rubato::control
