// What a worker makes of what others tell it.
#include <fmt/format.h>

#include <algorithm>

#include "elastic/membership/machine.h"

namespace rubato::elastic::membership {

namespace {

// The part of the environment that differs, or "".
std::string difference(const std::vector<Program::Trait>& ours,
                       const std::vector<Program::Trait>& theirs) {
  for (const Program::Trait& trait : ours) {
    const auto found = std::find_if(theirs.begin(), theirs.end(), [&](const Program::Trait& other) {
      return other.name == trait.name;
    });
    const std::string value = found == theirs.end() ? "(missing)" : found->value;
    if (value != trait.value) {
      return fmt::format("{} is '{}' there and '{}' in the job", trait.name, value, trait.value);
    }
  }
  return "";
}

}  // namespace

void Machine::hear(WorkerId from, const Join& message) {
  // It may have read that this worker leads before this worker knows it, or before the view begins,
  // and it asks only once. So everybody who may come to lead remembers.
  const ViewPtr& current = view();
  if (!current || std::holds_alternative<state::Leaving>(state_)) return;
  if (current->find(from) != nullptr) return;  // it was admitted meanwhile
  const auto refuse = [&](const std::string& reason) {
    effect(Record{Record::Kind::kRefused, from, view()->number, reason});
    send(from, Refused{reason, false});
  };
  if (message.address.id != from) return refuse("the address names another worker");
  if (message.description != setup_.description) {
    return refuse(fmt::format("this worker trains something else: {} instead of {}",
                              message.description, setup_.description));
  }
  const std::string differs = difference(setup_.traits, message.traits);
  if (!differs.empty()) {
    return refuse(
        fmt::format("its results would not be bit-identical: {}. Make them equal, or run "
                    "the job with --consistency d2",
                    differs));
  }
  // Workers of a node train on one board. A newcomer that arrived too early for the members' board
  // tries again. Newcomers that share another board with former members will leave, too.
  const auto other_board = [&](const WorkerAddress& w) {
    return w.node == message.address.node && w.board != message.address.board;
  };
  const auto& members = current->members;
  if (leads() && std::any_of(members.begin(), members.end(),
                             [&](const Member& member) { return other_board(member.address); })) {
    send(from, Refused{"the workers of its node use another board", true});
    return;
  }
  std::erase_if(wishes_.newcomers,
                [&](const auto& entry) { return other_board(entry.second.address); });
  wishes_.newcomers[from] = {.address = message.address, .since = now_.unix_s};
  send(from, Accepted{});
}

void Machine::hear(WorkerId from, const Accepted&) {
  auto* newcomer = std::get_if<state::Newcomer>(&state_);
  if (newcomer == nullptr) return;
  if (newcomer->asked == from) newcomer->answered = true;
  if (newcomer->accepted) return;
  newcomer->accepted = true;
  effect(TellObserve{newcomer->view});
}

void Machine::hear(WorkerId, const Refused& message) {
  if (std::holds_alternative<state::Newcomer>(state_)) {
    leave(message.reason, Why::kRefused, !message.retry);
  }
}

void Machine::hear(WorkerId from, const Ready& message) {
  const auto found = wishes_.newcomers.find(from);
  if (found != wishes_.newcomers.end()) found->second.ready = message.ready;
}

void Machine::hear(WorkerId from, const Leave&) { wishes_.leaving.insert(from); }

void Machine::hear(WorkerId from, const Bye& message) {
  roster_.left(from, message.done);
  effect(Forget{from});
  forget_peer(from);
}

void Machine::hear(WorkerId, const JobFinished&) {
  if (std::holds_alternative<state::Finished>(state_)) return;
  if (std::holds_alternative<state::Founding>(state_)) return;  // nobody can have finished its job
  become(state::Finished{}, Why::kJobDone);
  effect(TellFinished{});
}

void Machine::hear(WorkerId, Current<Prepare> message) {
  const ToPrepare to_prepare{
      .view = message->view, .proposal = message->proposal, .asked = now_.time};
  for (const Member& member : message->view->members) {
    want(member.address, id() > member.address.id);
  }
  if (auto* s = std::get_if<state::Newcomer>(&state_)) s->to_prepare = to_prepare;
  if (auto* s = std::get_if<state::Member>(&state_)) s->to_prepare = to_prepare;
  if (auto* s = std::get_if<state::Restoring>(&state_)) s->to_prepare = to_prepare;
  if (auto* s = std::get_if<state::Starting>(&state_)) s->to_prepare = to_prepare;
}

void Machine::hear(WorkerId from, Current<Prepared> message) {
  if (wishes_.change && wishes_.change->proposal == message->proposal) {
    wishes_.change->unprepared.erase(from);
  }
}

void Machine::hear(WorkerId from, Current<Freeze> message) { freeze(message->next, from); }

void Machine::hear(WorkerId from, Current<Frozen> message) {
  auto* s = std::get_if<state::Recovering>(&state_);
  if (s == nullptr || !s->latest || message->next != s->latest->number + 1) return;
  s->unfrozen.erase(from);
  s->complete[from] = message->complete;
}

void Machine::hear(WorkerId from, Current<Start> message) {
  log_.learn(message->view);
  if (message->view->leader == id()) {  // a founder that is not a member may be gone: pass it on
    started_ = *message;
    for (const Member& member : message->view->members) {
      const WorkerId worker = member.address.id;
      if (worker != id() && worker != from) send(worker, *message);
    }
  }
  start_by_message(*message);
}

void Machine::hear(WorkerId from, Current<Broken> message) {
  const ViewPtr here = view_here();
  if (std::holds_alternative<state::Recovering>(state_) || !here || here->number < message->view) {
    return;
  }
  if (here->number > message->view) {
    // The view before is over here, but its end cannot get there.
    if (here->find(from) != nullptr) {
      broken_ = StreamsBroke{here->number, fmt::format("worker {} stays behind", from)};
    }
    return;
  }
  if (!message->lost) {
    broken_ = StreamsBroke{message->view, message->reason};
    return;
  }
  // The two cannot continue together: what comes from a lost worker is never accepted again.
  const WorkerId lost = *message->lost;
  if (lost == id() || here->find(lost) == nullptr || roster_.has_lost(lost)) return;
  effect(Forget{lost});
  on(Lost{lost, "another worker cannot reach it"});
}

void Machine::forget_peer(WorkerId peer) {
  wishes_.newcomers.erase(peer);
  wishes_.leaving.erase(peer);
  wishes_.not_before = {};
  if (wishes_.change && wishes_.change->view->find(peer) != nullptr) cancel_change();
}

// A connection that broke between two living workers may have lost messages. Says again whatever
// this worker still waits for or the other may have missed; duplicates are harmless.
void Machine::say_again(WorkerId peer) {
  if (const auto* s = std::get_if<state::Recovering>(&state_);
      s != nullptr && s->unfrozen.contains(peer)) {
    send(peer, Freeze{s->latest->number + 1});
  }
  if (wishes_.change && wishes_.change->unprepared.contains(peer)) {
    send(peer, Prepare{wishes_.change->view, wishes_.change->proposal});
  }
  const ViewPtr& current = view();
  if (started_ && current && started_->view->number >= current->number &&
      started_->view->find(peer) != nullptr) {
    send(peer, *started_);
  }
  if (std::holds_alternative<state::Finished>(state_)) send(peer, JobFinished{});
  if (auto* s = std::get_if<state::Newcomer>(&state_); s != nullptr && s->asked == peer) {
    s->asked.reset();
  }
  if (auto* s = std::get_if<state::Member>(&state_); s != nullptr && s->asked_to_leave == peer) {
    s->asked_to_leave.reset();
  }
}

}  // namespace rubato::elastic::membership
