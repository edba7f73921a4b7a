// Planned changes: the leader admits newcomers that are ready, releases workers that should leave,
// and re-balances slow workers. There is one change at a time; requests that arrive meanwhile are
// merged into the next.
#include <algorithm>

#include "elastic/membership/machine.h"

namespace rubato::elastic::membership {

bool Machine::lead() {
  const auto* founding = std::get_if<state::Founding>(&state_);
  // A newcomer that is fed from a board without private states would train with wrong ones.
  if (founding != nullptr && !founding->filled) return false;
  if (!wishes_.change) return begin_change();
  return continue_change(*wishes_.change);
}

bool Machine::begin_change() {
  if (now_.time < wishes_.not_before) {
    wake_by(wishes_.not_before);
    return false;
  }
  const std::set<WorkerId> slow(wishes_.speeds.slow.begin(), wishes_.speeds.slow.end());
  std::optional<double> founded_at;
  if (const auto* founding = std::get_if<state::Founding>(&state_)) {
    founded_at = now_.unix_s - std::chrono::duration<double>(now_.time - founding->since).count();
  }
  Decision decision = next_view(setup_.rules, {.view = *view(),
                                               .target = log_.target(),
                                               .newcomers = wishes_.newcomers,
                                               .leaving = wishes_.leaving,
                                               .slow = slow,
                                               .seconds = wishes_.speeds.seconds,
                                               .rebalance = wishes_.speeds.rebalance,
                                               .now = now_.unix_s,
                                               .founded_at = founded_at});
  if (decision.balanced) wishes_.speeds.rebalance = false;
  if (!decision.next) return false;
  if (decision.next->view.cause == "rebalance") wishes_.speeds.rebalance = false;
  Change change;
  change.asked_at = decision.next->asked_at;
  change.began = now_.time;
  change.view = std::make_shared<const View>(std::move(decision.next->view));
  change.proposal = {change.view->number, id(), ++wishes_.attempts};
  // Those who leave with it are told, too: they must know what follows their last step.
  for (const ViewPtr& of : {change.view, view()}) {
    for (const Member& member : of->members) {
      const WorkerId worker = member.address.id;
      if (of == change.view) want(member.address, id() > worker);
      if (!change.unprepared.insert(worker).second || worker == id()) continue;
      send(worker, Prepare{change.view, change.proposal});
    }
  }
  effect(Map{change.view, change.proposal});
  wishes_.change = std::move(change);
  return true;
}

bool Machine::continue_change(Change& change) {
  if (change.phase != Change::Phase::kPreparing) return false;
  if (!change.unprepared.empty()) {
    const Time deadline = change.began + setup_.timing.prepare_timeout;
    if (now_.time < deadline) {
      wake_by(deadline);
      return false;
    }
    // A worker is alive but unable to prepare. The change can proceed without it or with its
    // successor.
    for (const WorkerId worker : change.unprepared) {
      const auto found = wishes_.newcomers.find(worker);
      if (found == wishes_.newcomers.end()) continue;
      send(worker, Refused{"it could not prepare the next view", false});
      if (here(found->second.address)) effect(Fence{worker, now_.time});
    }
    cancel_change();
    return true;
  }
  if (std::holds_alternative<state::Founding>(state_)) {
    commit_change(setup_.first_step - 1);  // nobody trains yet
    return false;
  }
  change.phase = Change::Phase::kHolding;
  effect(Hold{change.proposal});
  return false;
}

void Machine::commit_change(Step held) {
  Change& change = *wishes_.change;
  View next = *change.view;
  next.first_step = held + 1;
  next.prepare_s = std::max(0.0, now_.unix_s - change.asked_at);
  change.view = std::make_shared<const View>(std::move(next));
  change.phase = Change::Phase::kCommitting;
  effect(Swap{change.view});
}

void Machine::change_committed() {
  Change& change = *wishes_.change;
  change.phase = Change::Phase::kAnnounced;
  if (!std::holds_alternative<state::Founding>(state_)) {
    effect(Announce{change.view, change.proposal});
    return;
  }
  started_ = Start{change.view, "", {}, {}};
  for (const Member& member : change.view->members) {
    if (member.address.id != id()) send(member.address.id, *started_);
  }
  start_by_message(*started_);
}

void Machine::cancel_change() {
  if (!wishes_.change) return;
  const Change& change = *wishes_.change;
  // Once the registry was asked, only its answer or a recovery ends the change.
  if (change.phase == Change::Phase::kCommitting || change.phase == Change::Phase::kAnnounced) {
    return;
  }
  if (change.phase == Change::Phase::kHolding) effect(Release{});
  if (change.view->cause == "rebalance") wishes_.speeds.rebalance = true;
  wishes_.change.reset();
}

// This worker could not map the change. Often a newcomer has just ended, and its loss, which is
// about to be heard, makes another change possible at once (forget_peer); otherwise the next try
// waits, each time for longer.
void Machine::try_later() {
  const int doublings = std::min(wishes_.unmapped++, 16);
  wishes_.not_before = now_.time + std::min(setup_.timing.time_to_act * (1 << doublings),
                                            setup_.timing.prepare_timeout);
}

}  // namespace rubato::elastic::membership
