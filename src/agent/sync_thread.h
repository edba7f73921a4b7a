// Makes one call at a time in a thread of its own, so that the agent's loop never waits for the
// network.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "agent/daemon_link.h"
#include "base/mutex.h"

namespace rubato::agent {

class SyncThread {
 public:
  // `token` is the node's own, `join_token` the one with which it joins.
  SyncThread(const DaemonAddress& address, const std::string& node, const std::string& token,
             const std::string& join_token);
  ~SyncThread();
  SyncThread(const SyncThread&) = delete;
  SyncThread& operator=(const SyncThread&) = delete;

  // Whether a call is under way or its answer has not been taken.
  bool busy() const;
  void call(control::NodeReport report, bool join);
  // The answer to the last call, once.
  std::optional<Result<control::NodeOrders>> take_answer();

 private:
  struct Request {
    control::NodeReport report;
    bool join = false;
  };
  void run();

  DaemonLink link_;
  DaemonLink join_link_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<Request> request_ RUBATO_GUARDED_BY(mutex_);
  bool calling_ RUBATO_GUARDED_BY(mutex_) = false;
  std::optional<Result<control::NodeOrders>> answer_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::agent
