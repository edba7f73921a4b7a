#include "control/decision_thread.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/check.h"

namespace rubato::control {

namespace {

using Clock = DecisionLimit::Clock;

std::unique_ptr<DecisionAnswer> answer_to(std::unique_ptr<DecisionTask> task,
                                          const DecisionLimit& limit) {
  auto answer = std::make_unique<DecisionAnswer>();
  const auto began = Clock::now();
  try {
    answer->plan = task->policy->decide(task->question.input(&limit));
  } catch (const std::exception& problem) {
    answer->error = problem.what();
  }
  answer->algorithm_s = std::chrono::duration<double>(Clock::now() - began).count();
  answer->task = std::move(task);
  return answer;
}

}  // namespace

DecisionThread::DecisionThread(std::function<void()> ready) : ready_(std::move(ready)) {}

DecisionThread::~DecisionThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (limit_ != nullptr) limit_->hurry();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool DecisionThread::busy() const {
  const MutexLock lock(mutex_);
  return busy_;
}

void DecisionThread::start(std::unique_ptr<DecisionTask> task, Seconds seconds) {
  {
    const MutexLock lock(mutex_);
    RUBATO_CHECK(!busy_, "two decisions at once");
    busy_ = true;
    task_ = std::move(task);
    limit_ =
        std::make_shared<DecisionLimit>(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                           std::chrono::duration<double>(seconds)));
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void DecisionThread::hurry() {
  const MutexLock lock(mutex_);
  if (limit_ != nullptr) limit_->hurry();
}

std::unique_ptr<DecisionAnswer> DecisionThread::take() {
  const MutexLock lock(mutex_);
  if (answer_ != nullptr) busy_ = false;
  return std::move(answer_);
}

void DecisionThread::run() {
  for (;;) {
    std::unique_ptr<DecisionTask> task;
    std::shared_ptr<DecisionLimit> limit;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && task_ == nullptr) changed_.wait(mutex_);
      if (stopping_) return;
      task = std::move(task_);
      limit = limit_;
    }
    std::unique_ptr<DecisionAnswer> answer = answer_to(std::move(task), *limit);
    {
      const MutexLock lock(mutex_);
      answer_ = std::move(answer);
      limit_.reset();
    }
    ready_();
  }
}

}  // namespace rubato::control
