// Lets a program that owns its loop be driven by a runtime that owns its own: they take turns on
// one thread, each on a stack of its own. The runtime hands out a task and is suspended until the
// program asks for the next one; a change of turns costs less than a microsecond and wakes nobody.
//
// States: idle -> handed out (by perform) -> idle (by the next call of next or fail) -> ... ->
// ended (the runtime has returned its last task).
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <string>

#include "rubato/rubato.h"

namespace rubato::capi {

class Turns {
 public:
  // The runtime's side: hands out tasks with perform() and returns the last one. Must not throw.
  using Runtime = std::function<rubato_task()>;

  explicit Turns(Runtime runtime);  // it begins with the first next()
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  // The runtime must have ended or never begun.
  ~Turns();

  // The runtime's side. Returns when the task is done. Throws std::runtime_error if the program
  // says that it cannot be done, or has given up.
  void perform(const rubato_task& task);

  // The program's side. The task before is done; runs the runtime until it has another one.
  void next(rubato_task& out);
  // The task at hand cannot be done: what perform() throws.
  void fail(std::string message);
  // The program does no more tasks: every perform() fails. Returns when the runtime has ended.
  void give_up(const std::string& message);

 private:
  static void begin();  // on the runtime's stack
  void switch_to_runtime();

  Runtime runtime_;
  void* stack_ = nullptr;
  ucontext_t program_context_{};
  ucontext_t runtime_context_{};
  bool begun_ = false;
  bool ended_ = false;
  bool given_up_ = false;
  rubato_task task_{};
  std::string failure_;
};

}  // namespace rubato::capi
