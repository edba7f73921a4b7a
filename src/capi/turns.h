// Lets two threads take turns: the runtime's thread hands out tasks and waits until each is done;
// the program's thread asks for one after another. So a program that owns its loop can be driven by
// a runtime that owns its own.
//
// States: idle -> posted (by perform) -> taken (by next) -> idle (by the next call of next or
// fail). Ended is final; it is entered by end() when the runtime has no more tasks, and perform()
// fails in it once the program has given up.
#pragma once

#include <string>

#include "base/mutex.h"
#include "rubato/rubato.h"

namespace rubato::capi {

class Turns {
 public:
  // The runtime's side. Returns when the task is done. Throws std::runtime_error if the program
  // says that it cannot be done, or has given up.
  void perform(const rubato_task& task);
  // No more tasks; `last` is what next() returns from now on.
  void end(const rubato_task& last);

  // The program's side. The task taken before is done; waits for the next one.
  void next(rubato_task& out);
  // The task taken before cannot be done.
  void fail(std::string message);
  // No more tasks will be done; fails every perform().
  void give_up(std::string message);

 private:
  enum class State { kIdle, kPosted, kTaken, kEnded };

  Mutex mutex_;
  CondVar changed_;
  State state_ RUBATO_GUARDED_BY(mutex_) = State::kIdle;
  rubato_task task_ RUBATO_GUARDED_BY(mutex_) = {};
  std::string failure_ RUBATO_GUARDED_BY(mutex_);  // of the task that was taken last
  bool given_up_ RUBATO_GUARDED_BY(mutex_) = false;
};

}  // namespace rubato::capi
