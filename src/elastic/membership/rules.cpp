// What a worker does by itself in a state, as soon as it can; newcomer.cpp, leader.cpp,
// recovery.cpp and restoring.cpp have the rest.
#include "elastic/membership/machine.h"

namespace rubato::elastic::membership {

bool Machine::apply_rules() {
  if (std::holds_alternative<state::Gone>(state_) ||
      std::holds_alternative<state::Finished>(state_) ||
      std::holds_alternative<state::Leaving>(state_)) {
    return false;
  }
  read_registry(false);
  return std::visit([&](auto& current) { return rules_of(current); }, state_);
}

// Asks what is new. At once, or when it is time to.
void Machine::read_registry(bool at_once) {
  if (log_.reading()) return;
  const Time due = log_.asked_at() + setup_.timing.registry_interval;
  const bool never = log_.next_read() == 1;
  if (!at_once && !never && !log_.old() && now_.time < due) {
    wake_by(due);
    return;
  }
  log_.asked(now_.time);
  const ViewPtr& current = view();
  effect(ReadViews{current ? current->number : 0});
}

bool Machine::rules_of(state::Arriving& arriving) {
  if (arriving.founding || arriving.joining || !log_.answered(arriving.read)) return false;
  const ViewPtr& newest = log_.newest();
  if (newest && !newest->empty()) {
    arriving.joining = newest;
    effect(AdoptBoard{newest});
    return false;
  }
  const ViewNumber before = newest ? newest->number : ViewNumber{0};
  if (setup_.founds_after && *setup_.founds_after != before) {
    leave("the job begins again with other workers", Why::kExcluded);
    return false;
  }
  View first;
  first.number = before + 1;
  first.first_step = setup_.first_step;
  first.cause = newest ? "restart" : "start";
  first.leader = id();
  first.audits = newest ? newest->audits : 0;
  first.batch = setup_.rules.batches.batch(1, 1, 0);
  first.members = {{setup_.self, {0, setup_.rules.batches.logical_workers(1)}}};
  arriving.founding = std::make_shared<const View>(std::move(first));
  effect(MakeBoard{arriving.founding});
  return false;
}

bool Machine::rules_of(state::Founding&) { return lead(); }

bool Machine::rules_of(state::Member& member) {
  if (excluded()) {
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  if (recover_if_needed()) return true;
  prepare(member.to_prepare);
  if (wants_to_leave_ && member.asked_to_leave != member.view->leader) {
    if (leads()) {
      member.asked_to_leave = id();
      wishes_.leaving.insert(id());
    } else if (roster_.has(member.view->leader)) {
      member.asked_to_leave = member.view->leader;
      send(member.view->leader, Leave{});
    }
  }
  return leads() && lead();
}

bool Machine::rules_of(state::Frozen& frozen) {
  if (excluded()) {
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  if (frozen.stopped) {
    for (const auto& [peer, next] : frozen.ask) send(peer, Frozen{next, frozen.complete});
    frozen.ask.clear();
  }
  const View& newest = *log_.newest();
  if (frozen.outrun && newest.number >= frozen.next && newest.planned()) {
    recover();
    return true;
  }
  return recover_if_needed();
}

bool Machine::rules_of(state::Starting&) {
  if (excluded()) {
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  return recover_if_needed();
}

}  // namespace rubato::elastic::membership
