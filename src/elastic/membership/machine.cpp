#include "elastic/membership/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace rubato::elastic::membership {

// --- What all states share -----------------------------------------------------------------------

namespace {

const ViewPtr kNoView;

// The view that a worker in this state trains, follows or has left.
struct ViewOf {
  const ViewPtr& operator()(const state::Arriving&) const { return kNoView; }
  const ViewPtr& operator()(const state::Restoring& s) const { return s.before; }
  const ViewPtr& operator()(const state::Finished&) const { return kNoView; }
  const ViewPtr& operator()(const state::Gone&) const { return kNoView; }
  template <typename Other>
  const ViewPtr& operator()(const Other& s) const {
    return s.view;
  }
};

}  // namespace

const ViewPtr& Machine::view() const { return std::visit(ViewOf(), state_); }

ViewNumber Machine::floor() const {
  if (const auto* s = std::get_if<state::Frozen>(&state_)) return s->next;
  if (const auto* s = std::get_if<state::Restoring>(&state_)) return s->start.view->number + 1;
  if (const auto* s = std::get_if<state::Recovering>(&state_); s != nullptr && s->latest) {
    return s->latest->number + 1;
  }
  const ViewPtr& current = view();
  return current ? current->number + 1 : 1;
}

bool Machine::leads() const {
  const bool runs = std::holds_alternative<state::Member>(state_) ||
                    std::holds_alternative<state::Founding>(state_);
  return runs && view()->leader == id();
}

void Machine::become(State next, Why why) {
  RUBATO_CHECK(may_follow(kind_of(state_), why, kind_of(next)),
               "the table of states has no such transition");
  state_ = std::move(next);
}

void Machine::leave(const std::string& why, Why reason, bool refused) {
  become(state::Gone{}, reason);
  effect(TellLeave{why, refused});
}

void Machine::want(const WorkerAddress& peer, bool dial) {
  if (peer.id != id()) effect(Want{peer, dial});
}

void Machine::handle(const Now& now, const Input& input, Effects& out) {
  now_ = now;
  out_ = &out;
  wake_.reset();
  std::visit([&](const auto& value) { on(value); }, input);
  settle();
  out_ = nullptr;
}

void Machine::settle() {
  while (apply_rules()) {
  }
}

// --- Inputs --------------------------------------------------------------------------------------

void Machine::on(const Connected& input) {
  roster_.connected(input.peer.id);
  say_again(input.peer.id);
}

void Machine::on(const Lost& input) {
  roster_.lost(input.peer, input.why);
  forget_peer(input.peer);
}

void Machine::on(const Ended& input) {
  if (auto* s = std::get_if<state::Recovering>(&state_)) s->alive.erase(input.worker);
  if (auto* s = std::get_if<state::Restoring>(&state_)) s->alive.erase(input.worker);
}

void Machine::on(const ViewsRead& input) {
  log_.read_ended(true);
  for (const ViewPtr& read : input.views) log_.learn(read);
  log_.learn_target(input.target);
}

void Machine::on(const ReadFailed&) { log_.read_ended(false); }

void Machine::on(const RegistryChanged&) { log_.registry_changed(); }

void Machine::on(const Swapped& input) {
  if (auto* s = std::get_if<state::Arriving>(&state_)) {
    if (s->founding == input.view) founding_ended(*s, input.outcome);
    return;
  }
  if (input.outcome == Swapped::Outcome::kWon) log_.learn(input.view);
  if (auto* s = std::get_if<state::Recovering>(&state_)) {
    if (s->next == input.view) swap_ended(*s, input.outcome);
    return;
  }
  if (!leads() || !wishes_.change || wishes_.change->view != input.view) return;
  if (wishes_.change->phase != Change::Phase::kCommitting) return;
  switch (input.outcome) {
    case Swapped::Outcome::kWon:
      change_committed();
      break;
    case Swapped::Outcome::kLost:
      effect(Release{});
      wishes_.change.reset();
      if (std::holds_alternative<state::Founding>(state_)) {
        leave("another worker founded the job first", Why::kExcluded);
      }
      break;
    case Swapped::Outcome::kUnknown:
      effect(Swap{wishes_.change->view});
      break;
  }
}

void Machine::founding_ended(state::Arriving& arriving, Swapped::Outcome outcome) {
  switch (outcome) {
    case Swapped::Outcome::kWon: {
      const ViewPtr founded = arriving.founding;
      log_.learn(founded);
      become(state::Founding{.view = founded, .since = now_.time}, Why::kFounded);
      effect(TellFound{});
      break;
    }
    case Swapped::Outcome::kLost:
      effect(DropBoard{});
      arriving = state::Arriving{.read = log_.next_read()};
      read_registry(true);
      break;
    case Swapped::Outcome::kUnknown:
      effect(Swap{arriving.founding});
      break;
  }
}

void Machine::on(const BoardReady& input) {
  auto* s = std::get_if<state::Arriving>(&state_);
  if (s == nullptr) return;
  setup_.self.board = input.name;
  if (s->founding) {
    View first = *s->founding;
    first.board = input.name;
    first.members.front().address.board = input.name;
    s->founding = std::make_shared<const View>(std::move(first));
    effect(Swap{s->founding});
    return;
  }
  if (!s->joining) return;
  state::Newcomer newcomer;
  newcomer.view = s->joining;
  for (const Member& member : newcomer.view->members) want(member.address, true);
  become(std::move(newcomer), Why::kFoundAView);
}

void Machine::on(const BoardFailed& input) {
  if (std::holds_alternative<state::Arriving>(state_) ||
      std::holds_alternative<state::Newcomer>(state_)) {
    leave(input.why, Why::kFailed, input.hopeless);
  }
}

void Machine::on(const BoardFacts& input) { facts_ = input; }

void Machine::on(const Mapped& input) {
  const auto mapped = [&](std::optional<ToPrepare>& to_prepare) {
    if (to_prepare && to_prepare->proposal == input.proposal) to_prepare->mapped = true;
  };
  if (auto* s = std::get_if<state::Newcomer>(&state_)) mapped(s->to_prepare);
  if (auto* s = std::get_if<state::Member>(&state_)) mapped(s->to_prepare);
  if (wishes_.change && wishes_.change->proposal == input.proposal) {
    wishes_.change->unprepared.erase(id());
  }
}

void Machine::on(const MapFailed& input) {
  const bool begins = std::holds_alternative<state::Restoring>(state_) ||
                      std::holds_alternative<state::Starting>(state_);
  if (begins && !input.proposal) {
    leave(input.why, Why::kFailed);
  } else if (wishes_.change && input.proposal == wishes_.change->proposal) {
    effect(Record{Record::Kind::kError, std::nullopt, wishes_.change->view->number, input.why});
    cancel_change();
    try_later();
  }  // else the leader gives up after a while
}

void Machine::on(const PublishingStopped& input) {
  if (auto* s = std::get_if<state::Frozen>(&state_)) {
    s->stopped = true;
    s->complete = input.complete;
  }
  if (auto* s = std::get_if<state::Recovering>(&state_)) {
    s->complete[id()] = input.complete;
  }
}

void Machine::on(const Restored& input) {
  auto* s = std::get_if<state::Restoring>(&state_);
  if (s == nullptr || s->start.view->number != input.view || !s->asked) return;
  const ViewPtr begun = s->start.view;
  become(state::Starting{begun, std::move(s->to_prepare)}, Why::kRestored);
  effect(Begin{begun});
}

void Machine::on(const StreamsBroke& input) { broken_ = input; }

void Machine::on(const Filled&) {
  if (auto* s = std::get_if<state::Founding>(&state_)) s->filled = true;
}

void Machine::on(const FollowsNow& input) {
  if (auto* s = std::get_if<state::Newcomer>(&state_)) s->follows = input.follows;
}

void Machine::on(const Held& input) {
  if (!leads() || !wishes_.change || wishes_.change->phase != Change::Phase::kHolding) return;
  if (wishes_.change->proposal != input.proposal) return;  // of a change that was cancelled
  commit_change(input.step);
}

void Machine::on(const Entered& input) {
  log_.learn(input.view);
  if (auto* s = std::get_if<state::Frozen>(&state_)) {
    if (input.view->number > s->view->number) s->view = input.view;
    return;
  }
  if (auto* s = std::get_if<state::Recovering>(&state_)) {
    if (input.view->number > s->view->number) s->view = input.view;
    return;
  }
  const bool expected = std::holds_alternative<state::Newcomer>(state_) ||
                        std::holds_alternative<state::Member>(state_) ||
                        std::holds_alternative<state::Starting>(state_);
  // The news may be older than a view that has since been started by message.
  if (!expected || input.view->number < view()->number) return;
  // The leader of this view, who entered it earlier, may already prepare the one after it.
  std::optional<ToPrepare> to_prepare;
  if (auto* s = std::get_if<state::Newcomer>(&state_)) to_prepare = std::move(s->to_prepare);
  if (auto* s = std::get_if<state::Member>(&state_)) to_prepare = std::move(s->to_prepare);
  if (auto* s = std::get_if<state::Starting>(&state_)) to_prepare = std::move(s->to_prepare);
  if (to_prepare && to_prepare->view->number <= input.view->number) to_prepare.reset();
  become(state::Member{.view = input.view, .to_prepare = std::move(to_prepare)}, Why::kEntered);
  wishes_.change.reset();
  wishes_.unmapped = 0;
  const View& current = *input.view;
  for (const Member& member : current.members) {
    wishes_.newcomers.erase(member.address.id);
    want(member.address, id() > member.address.id);
  }
  std::erase_if(wishes_.leaving, [&](WorkerId w) { return current.find(w) == nullptr; });
  log_.forget_before(current.number);
  roster_.keep_losses([&](WorkerId worker) {
    return current.find(worker) != nullptr || log_.newest()->find(worker) != nullptr;
  });
}

void Machine::on(const AsksToLeave&) { wants_to_leave_ = true; }

void Machine::on(const Finishes&) {
  if (std::holds_alternative<state::Gone>(state_)) return;
  for (const WorkerId peer : roster_.all()) send(peer, JobFinished{});
  if (!std::holds_alternative<state::Finished>(state_)) become(state::Finished{}, Why::kJobDone);
}

void Machine::on(const Departs& input) {
  for (const WorkerId peer : roster_.all()) send(peer, Bye{input.delivered});
  switch (kind_of(state_)) {
    case StateKind::kMember:
    case StateKind::kFrozen:
    case StateKind::kRecovering:
      become(state::Leaving{view(), input.delivered}, Why::kNotInNext);
      break;
    case StateKind::kArriving:
    case StateKind::kFounding:
    case StateKind::kNewcomer:
    case StateKind::kRestoring:
    case StateKind::kStarting:
      become(state::Gone{}, Why::kFailed);  // it gives up
      break;
    case StateKind::kLeaving:
    case StateKind::kFinished:
    case StateKind::kGone:
      break;
  }
}

void Machine::on(const Speeds& input) {
  const bool rebalance = wishes_.speeds.rebalance || input.rebalance;
  wishes_.speeds = input;
  wishes_.speeds.rebalance = rebalance;
}

void Machine::on(const Received& input) {
  if (std::holds_alternative<state::Gone>(state_) ||
      std::holds_alternative<state::Arriving>(state_)) {
    return;
  }
  std::visit(
      [&](const auto& message) {
        using M = std::decay_t<decltype(message)>;
        if constexpr (requires { number_of(message); }) {
          // Answers and reports are about what this worker itself asked for or trains.
          constexpr bool kAnswers =
              std::is_same_v<M, Prepared> || std::is_same_v<M, Frozen> || std::is_same_v<M, Broken>;
          const ViewNumber oldest = kAnswers ? 1 : floor();
          if (auto current = Current<M>::admit(message, oldest)) hear(input.from, *current);
        } else {
          hear(input.from, message);
        }
      },
      input.message);
}

}  // namespace rubato::elastic::membership
