#include "capi/turns.h"

#include <stdexcept>
#include <utility>

namespace rubato::capi {

void Turns::perform(const rubato_task& task) {
  const MutexLock lock(mutex_);
  if (!given_up_) {
    failure_.clear();
    task_ = task;
    state_ = State::kPosted;
    changed_.notify_all();
    while (state_ != State::kIdle && !given_up_) changed_.wait(mutex_);
  }
  if (!failure_.empty()) throw std::runtime_error(failure_);
}

void Turns::end(const rubato_task& last) {
  const MutexLock lock(mutex_);
  task_ = last;
  state_ = State::kEnded;
  changed_.notify_all();
}

void Turns::next(rubato_task& out) {
  const MutexLock lock(mutex_);
  if (state_ == State::kTaken) {
    state_ = State::kIdle;
    changed_.notify_all();
  }
  while (state_ != State::kPosted && state_ != State::kEnded) changed_.wait(mutex_);
  if (state_ == State::kPosted) state_ = State::kTaken;
  out = task_;
}

void Turns::fail(std::string message) {
  const MutexLock lock(mutex_);
  if (state_ != State::kTaken) return;
  failure_ = message.empty() ? "the program failed" : std::move(message);
  state_ = State::kIdle;
  changed_.notify_all();
}

void Turns::give_up(std::string message) {
  const MutexLock lock(mutex_);
  given_up_ = true;
  failure_ = std::move(message);
  changed_.notify_all();
}

}  // namespace rubato::capi
