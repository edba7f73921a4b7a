// The thread that asks policies, so that the live loop does not wait for one. There is at most one
// decision at a time, however long it takes.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "control/decision_task.h"

namespace rubato::control {

class DecisionThread {
 public:
  // `ready` is called in the thread when there is an answer.
  explicit DecisionThread(std::function<void()> ready);
  // Asks a decision that is being made to end, and waits until it has. Policies look at their limit
  // (sched/decision_limit.h); one that does not keeps the process from ending, as far as
  // exit_deadline.h lets it.
  ~DecisionThread();
  DecisionThread(const DecisionThread&) = delete;
  DecisionThread& operator=(const DecisionThread&) = delete;

  // A decision is being made, or its answer was not taken yet.
  bool busy() const;
  // Not while busy(). The policy is told to end after `seconds`.
  void start(std::unique_ptr<DecisionTask> task, Seconds seconds);
  // Nobody needs the present decision any more.
  void hurry();
  // The answer if it is there, null otherwise.
  std::unique_ptr<DecisionAnswer> take();

 private:
  void run();

  const std::function<void()> ready_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::unique_ptr<DecisionTask> task_ RUBATO_GUARDED_BY(mutex_);    // until the thread has it
  std::shared_ptr<DecisionLimit> limit_ RUBATO_GUARDED_BY(mutex_);  // of the present decision
  bool busy_ RUBATO_GUARDED_BY(mutex_) = false;
  std::unique_ptr<DecisionAnswer> answer_ RUBATO_GUARDED_BY(mutex_);
  std::thread thread_;  // since the first decision
};

}  // namespace rubato::control
