// Which state may follow which, and why: the whole protocol of one worker on a page. The machine
// refuses any other transition, and docs/runtime.md shows this table.
#pragma once

#include <span>
#include <string_view>

#include "elastic/membership/states.h"

namespace rubato::elastic::membership {

// In the order of the alternatives of State.
enum class StateKind {
  kArriving,
  kFounding,
  kNewcomer,
  kMember,
  kFrozen,
  kRecovering,
  kRestoring,
  kStarting,
  kLeaving,
  kFinished,
  kGone,
};

enum class Why {
  kFounded,      // its view of itself was committed
  kFoundAView,   // the registry has a view, and this worker has that view's board
  kEntered,      // the training thread runs in the next view
  kStarted,      // a message started a view that has this worker
  kRestored,     // the started view is on the board of this node
  kAskedToStop,  // a worker that recovers asked for the promise
  kLoss,         // a member is lost, or streams broke, and it is this worker's turn to recover
  kOutrun,       // another worker committed a view first
  kRecovered,    // the view after the loss is committed, and the lost workers are dead
  kNotInNext,    // the announced view lacks it, or the job is over: its last step is done
  kJobDone,      // all steps are done
  kExcluded,     // the others went on without it, or nobody is left
  kRefused,      // the leader does not want it
  kFailed,       // memory or board cannot be had, or the program failed
};

struct Transition {
  StateKind from;
  Why why;
  StateKind to;
};

std::span<const Transition> transitions();
bool may_follow(StateKind from, Why why, StateKind to);
StateKind kind_of(const State& state);
std::string_view to_string(StateKind kind);
std::string_view to_string(Why why);

}  // namespace rubato::elastic::membership
