// New workers without the time that a program needs to load.
//
// Importing PyTorch takes most of the time between the start of a Python worker and its first step.
// The first worker therefore leaves a copy of itself behind when it has imported everything and has
// begun nothing (python/rubato/_warm.py): the warm parent. Later workers are forked from it. They
// are children of the launcher like those it executes, because the launcher is the subreaper of its
// descendants and every copy is made by a process that ends at once.
//
//   launcher                      first worker         warm parent            new worker
//   socketpair, fork, exec  --->  loads PyTorch
//                                 fork, fork  ------>  "ready"
//   request, log, control  ---------------------->     fork, fork  ------>    die with the launcher
//   add it to the list  <-------------------------------------------------    "here"
//   "go"  --------------------------------------------------------------->    its own script goes
//   on
//
// A new worker waits for "go" and ends without it, so none runs that the launcher does not know.
// The kernel says who wrote a message: what a program writes is never trusted with a process
// number. Whatever goes wrong here, the worker is executed instead.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

// For a worker that is executed: DESCRIPTOR:LAUNCHER, the end of a socket and the process number of
// the launcher. "0", set by a user, turns it off.
inline constexpr const char* kWarmVariable = "RUBATO_WARM";

class WarmParent {
 public:
  // Of workers that are started by this command. `is_worker` tells whether a child is one of them.
  WarmParent(std::vector<std::string> command, std::function<bool(pid_t)> is_worker)
      : command_(std::move(command)), is_worker_(std::move(is_worker)) {}
  WarmParent(const WarmParent&) = delete;
  WarmParent& operator=(const WarmParent&) = delete;
  ~WarmParent() { end(); }

  // Before a worker is executed: the descriptor that it may leave to its copy, unless there is a
  // copy or another worker has an offer. To be closed by the caller after the fork.
  Descriptor offer();

  struct Request {
    std::vector<std::pair<std::string, std::string>> environment{};  // to be set
    std::string log{};                                               // for its output
  };
  // Starts a worker. Nothing if there is no warm parent or it does not answer in time.
  std::optional<pid_t> start(const Request& request);

  // This child has been waited for. Its number may belong to another process now.
  void note_end(pid_t child);
  // Workers that were forked fail: execute them from now on.
  void give_up();
  void end();  // ends the copy

 private:
  void look();  // has the offer been taken, or turned down?
  bool is_new_child(pid_t pid) const;
  bool runs_command(pid_t pid) const;

  std::vector<std::string> command_;
  std::function<bool(pid_t)> is_worker_;
  bool given_up_ = false;
  Descriptor socket_;  // to the worker that has the offer, then to the warm parent
  pid_t parent_ = 0;   // of the copy; 0: there is none yet
};

}  // namespace rubato::elastic
