#include "elastic/membership/table.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace rubato::elastic::membership {

namespace {

using enum StateKind;

constexpr std::array kTransitions = {
    Transition{kArriving, Why::kFounded, kFounding},
    Transition{kArriving, Why::kFoundAView, kNewcomer},
    Transition{kArriving, Why::kExcluded, kGone},
    Transition{kArriving, Why::kFailed, kGone},
    Transition{kFounding, Why::kStarted, kRestoring},
    Transition{kFounding, Why::kExcluded, kGone},
    Transition{kFounding, Why::kFailed, kGone},
    Transition{kNewcomer, Why::kEntered, kMember},
    Transition{kNewcomer, Why::kStarted, kRestoring},
    Transition{kNewcomer, Why::kAskedToStop, kFrozen},
    Transition{kNewcomer, Why::kLoss, kRecovering},
    Transition{kNewcomer, Why::kJobDone, kFinished},
    Transition{kNewcomer, Why::kRefused, kGone},
    Transition{kNewcomer, Why::kExcluded, kGone},
    Transition{kNewcomer, Why::kFailed, kGone},
    Transition{kMember, Why::kEntered, kMember},
    Transition{kMember, Why::kStarted, kRestoring},
    Transition{kMember, Why::kAskedToStop, kFrozen},
    Transition{kMember, Why::kLoss, kRecovering},
    Transition{kMember, Why::kNotInNext, kLeaving},
    Transition{kMember, Why::kJobDone, kFinished},
    Transition{kMember, Why::kExcluded, kGone},
    Transition{kFrozen, Why::kStarted, kRestoring},
    Transition{kFrozen, Why::kLoss, kRecovering},
    Transition{kFrozen, Why::kNotInNext, kLeaving},
    Transition{kFrozen, Why::kJobDone, kFinished},
    Transition{kFrozen, Why::kExcluded, kGone},
    Transition{kRecovering, Why::kLoss, kRecovering},
    Transition{kRecovering, Why::kOutrun, kFrozen},
    Transition{kRecovering, Why::kStarted, kRestoring},
    Transition{kRecovering, Why::kRecovered, kRestoring},
    Transition{kRecovering, Why::kNotInNext, kLeaving},
    Transition{kRecovering, Why::kJobDone, kFinished},
    Transition{kRecovering, Why::kExcluded, kGone},
    Transition{kRestoring, Why::kStarted, kRestoring},
    Transition{kRestoring, Why::kRestored, kStarting},
    Transition{kRestoring, Why::kAskedToStop, kFrozen},
    Transition{kRestoring, Why::kLoss, kRecovering},
    Transition{kRestoring, Why::kJobDone, kFinished},
    Transition{kRestoring, Why::kExcluded, kGone},
    Transition{kRestoring, Why::kFailed, kGone},
    Transition{kStarting, Why::kEntered, kMember},
    Transition{kStarting, Why::kStarted, kRestoring},
    Transition{kStarting, Why::kAskedToStop, kFrozen},
    Transition{kStarting, Why::kLoss, kRecovering},
    Transition{kStarting, Why::kJobDone, kFinished},
    Transition{kStarting, Why::kFailed, kGone},
    Transition{kStarting, Why::kExcluded, kGone},
    Transition{kLeaving, Why::kJobDone, kFinished},
};

}  // namespace

std::span<const Transition> transitions() { return kTransitions; }

bool may_follow(StateKind from, Why why, StateKind to) {
  return std::any_of(kTransitions.begin(), kTransitions.end(), [&](const Transition& t) {
    return t.from == from && t.why == why && t.to == to;
  });
}

StateKind kind_of(const State& state) { return static_cast<StateKind>(state.index()); }

std::string_view to_string(StateKind kind) {
  constexpr std::array<std::string_view, 11> kNames = {
      "arriving",  "founding", "newcomer", "member",   "frozen", "recovering",
      "restoring", "starting", "leaving",  "finished", "gone"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Why why) {
  constexpr std::array<std::string_view, 14> kTexts = {
      "its view of itself is committed",
      "the registry has a view, and this worker has its board",
      "the training thread runs in the next view",
      "a message starts a view with this worker",
      "the started view is on its board",
      "a recovering worker asks it to stop",
      "a member is lost or streams broke, and it is its turn to act",
      "another worker committed a view first",
      "the view without the lost is committed, and they are dead",
      "the next view lacks it, or the job is over",
      "all steps are done",
      "the others went on without it, or nobody is left",
      "the leader does not want it",
      "its memory cannot be had, or its program failed"};
  return kTexts[static_cast<std::size_t>(why)];
}

}  // namespace rubato::elastic::membership
