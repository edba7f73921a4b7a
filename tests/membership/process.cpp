#include "membership/process.h"

#include <fmt/format.h>

#include <algorithm>

namespace rubato::elastic::membership::sim {

namespace {

constexpr Micros kPauseAfterFailure = 100'000;  // unless there is news of who is gone

Setup setup_of(int id, const std::string& node, const std::string& home, Step first_step) {
  Setup setup;
  setup.self.id = id;
  setup.self.node = node;
  setup.self.segment = std::to_string(id);
  setup.rules = {BatchRule::consistent(kLogical, 1), kLogical, home};
  setup.first_step = first_step;
  setup.timing.registry_interval = std::chrono::milliseconds(400);
  return setup;
}

}  // namespace

Process::Process(World& world, int id, int node, int board)
    : world_(world),
      id_(id),
      node_(node),
      board_number_(board),
      machine_(setup_of(id, world.names_[static_cast<std::size_t>(node)], world.names_.front(),
                        world.checkpoint_)) {
  world_.after(world_.random_.between(1, 1000), id_, {Input{Tick{}}});
}

void Process::handle(World::Todo& todo) {
  if (!alive_) return;
  if (auto* wake = std::get_if<WakeUp>(&todo.what)) {
    if (!stopped_ || wake->serial != stop_serial_) return;
    stopped_ = false;
    std::vector<World::Todo> missed = std::move(missed_);
    missed_.clear();
    // In the order in which they came, and before all that comes from now on.
    for (World::Todo& each : missed) world_.after(0, id_, std::move(each));
    return;
  }
  if (stopped_) {
    missed_.push_back(std::move(todo));
    return;
  }
  std::visit(
      [&](auto& what) {
        using T = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<T, Input>) {
          handle_input(what);
        } else if constexpr (std::is_same_v<T, Deliver>) {
          const Micros heals = world_.network_.cut_until(process(what.from).node_, node_);
          if (heals > world_.now_) {
            world_.at(heals, id_, {std::move(what)});
            return;
          }
          Peer& from = peer(what.from);
          if (from.connection != what.connection || from.lost) return;
          facts();
          input(Received{what.from, std::move(what.message)});
        } else if constexpr (std::is_same_v<T, Greeted>) {
          const Peer& from = peer(what.peer);
          if (from.connection != what.connection || from.lost) return;
          input(Connected{process(what.peer).address()});
        } else if constexpr (std::is_same_v<T, Dial>) {
          dial(what.peer);
        } else if constexpr (std::is_same_v<T, Silence>) {
          handle(what);
        } else if constexpr (std::is_same_v<T, Train>) {
          training_scheduled_ = false;
          train();
        } else if constexpr (std::is_same_v<T, TickDue>) {
          if (what.at != tick_at_) return;
          tick_at_ = 0;
          if (const auto wake = machine_.wake_at(); wake && wake->count() > world_.now_) {
            tick_by(wake->count());
            return;
          }
          facts();
          input(Tick{});
        } else if constexpr (std::is_same_v<T, FenceDue>) {
          Process& other = process(what.worker);
          if (other.node_ != node_) world_.violate("a worker of another node is fenced");
          other.kill();
          answer(1, 500, Ended{what.worker});
        } else if constexpr (std::is_same_v<T, LookAtBridges>) {
          bridging_scheduled_ = false;
          look_at_bridges();
        } else if constexpr (std::is_same_v<T, DialStream>) {
          if (Bridge* const of = bridge(what.view)) of->dial(what.gateway);
        } else if constexpr (std::is_same_v<T, StreamData>) {
          take_frame(what);
        } else if constexpr (std::is_same_v<T, StreamEnded>) {
          stream_ended(what);
        } else if constexpr (std::is_same_v<T, TellBroken>) {
          tell_broken(what.view);
        } else if constexpr (std::is_same_v<T, FeedDue>) {
          feed_now_and_then();
        } else if constexpr (std::is_same_v<T, AskFeed>) {
          answer_feed(what);
        } else if constexpr (std::is_same_v<T, FeedAnswer>) {
          take_feed(what);
        } else if constexpr (std::is_same_v<T, AskState>) {
          Micros last = 0;
          const Segment& own = segment();
          Process& to = process(what.from);
          world_.at(world_.arrival(*this, to, last), what.from,
                    {StateAnswer{id_, own.state, own.version}});
        } else if constexpr (std::is_same_v<T, StateAnswer>) {
          take_state(what);
        } else if constexpr (std::is_same_v<T, GiveUpState>) {
          if (phase_ == Phase::kObserve && !has_state_ && !donor_) end("nobody has the state");
        } else if constexpr (std::is_same_v<T, DepartBy>) {
          if (phase_ == Phase::kDepart) try_depart(true);
        } else if constexpr (std::is_same_v<T, FinishedBy>) {
          interrupted_ = true;
          train_soon();
        }
      },
      todo.what);
}

void Process::handle_input(Input& what) {
  if (const auto* mapped = std::get_if<Mapped>(&what)) {
    const auto found = mapping_.find(mapped->proposal.view);
    if (found == mapping_.end() || found->second.proposal != mapped->proposal) return;
    found->second.mapped = true;
    answer_mapped();
    return;
  }
  input(what);
}

void Process::input(const Input& input) {
  if (!alive_ || ended_) return;
  if (std::holds_alternative<Lost>(input)) in_vain_at_.reset();
  if (const auto* received = std::get_if<Received>(&input)) {
    if (std::holds_alternative<Bye>(received->message)) in_vain_at_.reset();
    world_.moment_came(
        {.kind = Moment::Kind::kHears, .worker = id_, .message = received->message.index()});
    if (world_.tracing_) {
      world_.trace(fmt::format("{} <- {}: {}", id_, received->from, describe(received->message)));
    }
  }
  Effects effects = std::move(world_.spare_effects_);
  effects.clear();
  const StateKind before = kind_of(machine_.state());
  machine_.handle(world_.now_for_machines(), input, effects);
  if (kind_of(machine_.state()) != before) {
    world_.moment_came({.worker = id_, .state = kind_of(machine_.state())});
    if (world_.tracing_)
      world_.trace(fmt::format("worker {}: {} -> {}", id_, to_string(before),
                               to_string(kind_of(machine_.state()))));
  }
  carry_out_all(effects);
  world_.spare_effects_ = std::move(effects);
  if (const std::optional<Time> wake = machine_.wake_at()) tick_by(wake->count());
}

// A tick that comes too early only asks for a later one.
void Process::tick_by(Micros when) {
  when = std::max(world_.now_ + 1, when);
  if (tick_at_ != 0 && tick_at_ <= when) return;
  tick_at_ = when;
  world_.at(when, id_, {TickDue{when}});
}

void Process::answer(Micros low, Micros high, Input input) {
  world_.after(world_.random_.between(low, high), id_, {std::move(input)});
}

void Process::carry_out_all(const Effects& effects) {
  for (const Effect& effect : effects) {
    if (alive_) carry_out(effect);
  }
}

// Facts of the board are known before anything that a decision may rest on.
void Process::facts() {
  const View* const of = current();
  if (board_ == nullptr || ended_ || of == nullptr) return;
  const Block& there = board_->block(of->number);
  BoardFacts facts{.view = of->number};
  facts.open = there.view == of->number;
  if (facts.open) {
    facts.closed = there.closed;
    facts.next = there.next;
    facts.next_first_step = there.next_first_step;
    for (const Row& row : there.rows) facts.reduced.push_back(row.reduced);
  }
  if (facts == last_facts_) return;
  last_facts_ = facts;
  input(facts);
}

// A newcomer of this node that ends by itself removes its memory, perhaps before its end is heard.
bool Process::lacks_memory_for(const View& view) const {
  const View* const mapped = current();
  return std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
    const WorkerAddress& worker = member.address;
    if (worker.node != node_name() || process(worker.id).alive()) return false;
    return mapped == nullptr || mapped->find(worker.id) == nullptr;
  });
}

void Process::carry_out(const Effect& effect) {
  Random& random = world_.random_;
  std::visit(
      [&](const auto& what) {
        using T = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<T, Want>) {
          Peer& of = peer(what.peer.id);
          if (of.lost || of.connection != 0 || of.dials) return;
          of.dials = what.dial;
          if (what.dial) world_.after(random.between(10, 400), id_, {Dial{what.peer.id}});
          world_.after(kFailureTimeout, id_, {Silence{what.peer.id, of.serial}});
        } else if constexpr (std::is_same_v<T, Send>) {
          if (const auto* frozen = std::get_if<Frozen>(&what.message)) {
            if (world_.tracing_) {
              world_.trace(fmt::format("worker {} is frozen for {} until view {}, complete: {}",
                                       id_, what.to, frozen->next, frozen->complete.value_or(-1)));
            }
            promised_ = std::max(promised_, frozen->next);
          }
          send(what.to, what.message);
        } else if constexpr (std::is_same_v<T, Forget>) {
          Peer& of = peer(what.peer);
          of.lost = true;
          disconnect(of, true);
        } else if constexpr (std::is_same_v<T, Fence>) {
          // A process that is told to end may take a while.
          const Micros while_it_ends =
              random.one_in(4) ? random.between(0, 100'000) : random.between(1, 500);
          world_.at(
              std::max(world_.now_, static_cast<Micros>(what.not_before.count())) + while_it_ends,
              id_, {FenceDue{what.worker}});
        } else if constexpr (std::is_same_v<T, ReadViews>) {
          world_.after(random.between(50, 2000), -1 - id_, {AtRegistry{what.after, nullptr}});
        } else if constexpr (std::is_same_v<T, Swap>) {
          world_.after(random.between(50, 2000), -1 - id_, {AtRegistry{std::nullopt, what.view}});
        } else if constexpr (std::is_same_v<T, MakeBoard>) {
          use_board(fmt::format("{}-founded-{}", node_name(), id_));
          observed_ = what.view;
          const Step first = what.view->first_step;
          board_->open(what.view->number, 1, first);
          board_->completed = first - 1;
          board_->gradient_tag(first - 1) = -2 - (first - 1);
          answer(10, 500, BoardReady{board_name_});
        } else if constexpr (std::is_same_v<T, AdoptBoard>) {
          adopt_board(what.view);
        } else if constexpr (std::is_same_v<T, DropBoard>) {
          std::erase(board_->at, this);
          board_ = nullptr;
          observed_ = nullptr;
        } else if constexpr (std::is_same_v<T, Map>) {
          drop_other_bridge(*what.view);
          if (lacks_memory_for(*what.view) && random.one_in(2)) {
            const bool own = what.proposal.leader == id_;
            if (own && in_vain_at_ && world_.now_ - *in_vain_at_ < kPauseAfterFailure) {
              world_.violate(fmt::format("worker {} maps in vain again and again", id_));
            }
            if (own) in_vain_at_ = world_.now_;
            answer(1, 300, MapFailed{"the memory of a newcomer is gone", what.proposal});
            return;
          }
          mapping_[what.view->number] = {what.proposal, what.view};
          answer(10, random.one_in(8) ? 40'000 : 3000, Mapped{what.proposal});
        } else if constexpr (std::is_same_v<T, StopPublishing>) {
          frozen_ = interrupted_ = true;
          hold_ = false;
          held_.reset();
          restoring_.reset();
          close_blocks();
          stop_feeding();
          stop_bridges();
          train_soon();
          answer(1, 300, PublishingStopped{complete_here()});
        } else if constexpr (std::is_same_v<T, Restore>) {
          stop_feeding();
          stop_bridges();
          restoring_ = what;
          continue_restore();
        } else if constexpr (std::is_same_v<T, CopyFrom>) {
          donor_ = what.donor;
          asked_state_ = false;
          train_soon();
        } else if constexpr (std::is_same_v<T, TellFound>) {
          news_.push_back(Event::kFound);
          train_soon();
        } else if constexpr (std::is_same_v<T, TellObserve>) {
          observed_ = what.view;
          news_.push_back(Event::kObserve);
          train_soon();
        } else if constexpr (std::is_same_v<T, Observe>) {
          observed_ = what.view;
          train_soon();
        } else if constexpr (std::is_same_v<T, Hold>) {
          // The training thread computes this step, or will: it has not arrived there.
          if (phase_ == Phase::kWaitEnd || phase_ == Phase::kDepart) return;
          hold_ = true;
          const bool arrived = phase_ == Phase::kArrived || phase_ == Phase::kReduced;
          held_ = segment().version + (arrived ? 1 : 0);
          answer(1, random.one_in(8) ? 40'000 : 3000, Held{what.proposal, *held_});
        } else if constexpr (std::is_same_v<T, Release>) {
          hold_ = false;
          held_.reset();
          train_soon();
        } else if constexpr (std::is_same_v<T, Announce>) {
          if (!what.view->empty()) {
            board_->open(what.view->number, what.view->members.size(), what.view->first_step);
          }
          Block& before = board_->block(what.view->number - 1);
          before.next_first_step = what.view->first_step;
          before.next = what.view->number;
          before.proposal = what.proposal;
          hold_ = false;
          held_.reset();
          pulse();
        } else if constexpr (std::is_same_v<T, Begin>) {
          to_start_ = what.view;
          if (what.view->number < promised_) {
            world_.violate(fmt::format("worker {} begins view {} after it promised to wait for {}",
                                       id_, what.view->number, promised_));
          }
          promised_ = 0;
          frozen_ = false;
          interrupted_ = true;
          restoring_.reset();
          news_.push_back(Event::kStart);
          train_soon();
        } else if constexpr (std::is_same_v<T, TellFinished>) {
          news_.push_back(Event::kFinished);
          world_.after(2 * kFailureTimeout, id_, {FinishedBy{}});
          train_soon();
        } else if constexpr (std::is_same_v<T, Record>) {
          if (world_.tracing_) {
            world_.trace(fmt::format("worker {} records for view {}: {}{}", id_, what.view,
                                     what.worker ? fmt::format("{} ", *what.worker) : "",
                                     what.text));
          }
        } else if constexpr (std::is_same_v<T, TellLeave>) {
          if (world_.tracing_) world_.trace(fmt::format("worker {} leaves: {}", id_, what.why));
          if (view_ && what.why.find("has the state") != std::string::npos) {
            world_.violate(fmt::format("worker {} has trained, and says: {}", id_, what.why));
          }
          interrupted_ = told_to_leave_ = true;
          news_.push_back(Event::kLeave);
          train_soon();
        }
      },
      effect);
}

void Process::ask_to_leave() {
  wants_to_leave_ = true;
  answer(1, 100, AsksToLeave{});
}

}  // namespace rubato::elastic::membership::sim
