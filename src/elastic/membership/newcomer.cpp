// A newcomer follows the view that others run until it is a member.
#include <algorithm>

#include "elastic/membership/machine.h"
#include "elastic/transport/bridge_layout.h"

namespace rubato::elastic::membership {

bool Machine::rules_of(state::Newcomer& newcomer) {
  if (follow(newcomer)) return true;
  if (std::holds_alternative<state::Gone>(state_)) return false;
  if (recover_if_needed()) return true;
  if (abandoned(newcomer)) {
    leave("all workers of the job are gone", Why::kExcluded);
    return false;
  }
  if (unheard(newcomer)) {
    leave("the leader of the job does not hear this worker", Why::kExcluded);
    return false;
  }
  if (cannot_prepare(newcomer.to_prepare)) {
    leave("a worker of the next view does not hear this worker", Why::kExcluded);
    return false;
  }
  ask_to_join(newcomer);
  choose_donor(newcomer);
  prepare(newcomer.to_prepare);
  return false;
}

// Looks at the next view. One that has this worker comes first, even if the view after it lacks it:
// it may have begun, and then nobody makes progress without this worker. The board or a message
// lets it enter.
bool Machine::follow(state::Newcomer& newcomer) {
  const ViewPtr& newest = log_.newest();
  if (newest->number <= newcomer.view->number) return false;
  const ViewPtr next = log_.at(newcomer.view->number + 1);
  if (next && next->find(id()) != nullptr) {
    // Unless the others have lost it since.
    if (!lacks_after(next->number)) return false;
    leave("the others continued without this worker", Why::kExcluded);
    return false;
  }
  // A job that restarted, also one that already runs again: what was copied here is not its state.
  if (newest->empty() || (next && next->empty())) {
    leave("the job was stopped or is restarting", Why::kExcluded);
    return false;
  }
  if (!next) return false;  // not read yet
  // Workers of a node share a board. One that former members may still write to cannot be fed.
  const WorkerId before = gateway_of(*newcomer.view, setup_.self.node);
  const WorkerId gateway = gateway_of(*next, setup_.self.node);
  if (before >= 0 && gateway < 0) {
    leave("all other workers of this node have left the job", Why::kExcluded);
    return false;
  }
  if (gateway >= 0 && next->find(gateway)->address.board != setup_.self.board) {
    leave("workers of this node have joined on another board", Why::kExcluded);
    return false;
  }
  newcomer.view = next;
  effect(Observe{next});
  for (const Member& member : next->members) want(member.address, true);
  return true;
}

// Whether nobody of the view is left, and the registry, asked after that, knows no later one.
bool Machine::abandoned(state::Newcomer& newcomer) {
  const auto& members = newcomer.view->members;
  const bool all_lost = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return roster_.has_lost(member.address.id);
  });
  // The next view is announced on the board: all of this one may have left as planned, and what the
  // registry says may be stale.
  const bool announced = facts_.view == newcomer.view->number && facts_.next > facts_.view;
  if (!all_lost || announced || log_.newest()->number > newcomer.view->number) {
    newcomer.alone_if.reset();
    return false;
  }
  if (!newcomer.alone_if) newcomer.alone_if = log_.next_read();
  if (log_.answered(*newcomer.alone_if)) return true;
  read_registry(true);
  return false;
}

// Whether a leader that is lost here still leads after a time in which the members would have
// noticed that it is gone. It has lost this worker, then, and will never admit it.
bool Machine::unheard(state::Newcomer& newcomer) {
  const bool lost =
      roster_.has_lost(newcomer.view->leader) && log_.newest()->number == newcomer.view->number;
  if (!lost) {
    newcomer.unheard_since.reset();
    return false;
  }
  if (!newcomer.unheard_since) newcomer.unheard_since = now_.time;
  const Time due = *newcomer.unheard_since + setup_.timing.prepare_timeout;
  if (now_.time >= due) return true;
  wake_by(due);
  return false;
}

// Whether the next view has a worker that is lost here, and its leader has not noticed within the
// time in which it would have if that worker were gone. The two can never be in one view, and the
// leader would wait for both until it gives up.
bool Machine::cannot_prepare(const std::optional<ToPrepare>& to_prepare) {
  if (!to_prepare || !lost_of(*to_prepare->view)) return false;
  const Time due = to_prepare->asked + setup_.timing.time_to_act;
  if (now_.time >= due) return true;
  wake_by(due);
  return false;
}

void Machine::ask_to_join(state::Newcomer& newcomer) {
  const WorkerId leader = newcomer.view->leader;
  // A leader that does not know yet that it leads gives no answer.
  const Time again = newcomer.asked_at + setup_.timing.time_to_act;
  const bool silent = newcomer.asked == leader && !newcomer.answered;
  if (silent && now_.time < again) wake_by(again);
  const bool due = newcomer.asked != leader || (silent && now_.time >= again);
  if (due && roster_.has(leader)) {
    newcomer.asked = leader;
    newcomer.asked_at = now_.time;
    newcomer.answered = false;
    newcomer.said_ready = false;
    wake_by(now_.time + setup_.timing.time_to_act);
    send(leader, Join{setup_.self, setup_.description, setup_.traits});
  }
  if (newcomer.follows != newcomer.said_ready && newcomer.asked == leader) {
    newcomer.said_ready = newcomer.follows;
    send(leader, Ready{newcomer.follows});
  }
}

// Any living member, preferably of this node.
void Machine::choose_donor(state::Newcomer& newcomer) {
  const auto lives = [&](WorkerId worker) {
    return newcomer.view->find(worker) != nullptr && !roster_.has_lost(worker);
  };
  if (newcomer.donor && lives(*newcomer.donor)) return;
  std::optional<WorkerId> donor;
  for (const Member& member : newcomer.view->members) {
    if (here(member.address) && lives(member.address.id)) {
      donor = member.address.id;
      break;
    }
    if (!donor && roster_.has(member.address.id)) donor = member.address.id;
  }
  if (donor == newcomer.donor) return;
  newcomer.donor = donor;
  effect(CopyFrom{donor});
}

// Answers the leader when everything that the next view needs is there.
void Machine::prepare(std::optional<ToPrepare>& to_prepare) {
  if (!to_prepare) return;
  const View& next = *to_prepare->view;
  const bool stays = next.find(id()) != nullptr;
  if (!to_prepare->mapping) {
    const bool all = std::all_of(next.members.begin(), next.members.end(), [&](const Member& m) {
      return m.address.id == id() || roster_.has(m.address.id);
    });
    if (stays && !all) return;
    to_prepare->mapping = true;
    effect(Map{to_prepare->view, to_prepare->proposal});
  }
  if (!to_prepare->mapped) return;
  // The board of a newcomer's node, if it has no members, may lag behind the view or have been
  // abandoned. Without the previous view on it, the newcomer would never see this one begin.
  if (stays && (facts_.view != next.number - 1 || !facts_.open)) return;
  send(to_prepare->proposal.leader, Prepared{to_prepare->proposal});
  to_prepare.reset();
}

}  // namespace rubato::elastic::membership
