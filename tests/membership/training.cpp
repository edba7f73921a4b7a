// The training thread of a simulated worker: it does what elastic/worker/training.cpp does.
#include <fmt/format.h>

#include <algorithm>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

void Process::train_soon(Micros low, Micros high) {
  if (training_scheduled_ || !alive_ || ended_) return;
  training_scheduled_ = true;
  world_.after(world_.random_.between(low, high), id_, {Train{}});
}

std::string Process::doing() const {
  constexpr std::array<const char*, 9> kNames = {"waits for news", "fills",   "observes",
                                                 "computes",       "held",    "arrived",
                                                 "reduced",        "is done", "departs"};
  std::string text = kNames[static_cast<std::size_t>(phase_)];
  if (view_) {
    text += fmt::format(", view {} step {}", view_->number, computing_);
    const Block& block = board_->block(view_->number);
    text += block.view == view_->number ? ", board:" : ", board of another view:";
    for (const Row& row : block.rows) text += fmt::format(" {}/{}", row.arrived, row.reduced);
    if (block.next != 0)
      text += fmt::format(", then {} from {}", block.next, block.next_first_step);
    if (block.closed) text += ", closed";
  }
  if (frozen_) text += ", frozen";
  for (const auto& each : bridges_) {
    text += fmt::format(", bridge {}{}{}", each->view().number,
                        each->connected() ? "" : " unconnected", each->broken() ? " broken" : "");
  }
  return text;
}

void Process::end(const char* how) {
  if (world_.tracing_) world_.trace(fmt::format("worker {} ends: {}", id_, how));
  ended_ = true;
  kill();
}

void Process::train() {
  if (ended_) return;
  // Interrupted: the step is abandoned, whatever it waits for.
  const bool in_step = phase_ == Phase::kCompute || phase_ == Phase::kHeld ||
                       phase_ == Phase::kArrived || phase_ == Phase::kReduced;
  if (interrupted_ && in_step) phase_ = Phase::kIdle;
  if (frozen_ && phase_ == Phase::kDepart) phase_ = Phase::kIdle;  // others decide what follows
  switch (phase_) {
    case Phase::kIdle:
      take_event();
      break;
    case Phase::kWaitEnd:
      if (take_event() || interrupted_ || !leads()) break;
      check_publishing(*view_);
      world_.reports_success(*this, &*view_, segment().version);
      world_.finished_ = true;
      world_.finished_at_ = world_.now_;
      input(Finishes{});
      depart("it wrote the result");
      break;
    case Phase::kDepart:
      try_depart();
      break;
    case Phase::kFill:
      for (int l = 0; l < kLogical; ++l) {
        board_->slot_before(l, segment().version) = world_.reference_.slot(l, segment().version);
      }
      phase_ = Phase::kIdle;
      answer(1, 50, Filled{});
      train_soon();
      break;
    case Phase::kObserve:
      if (!news_.empty()) {
        take_event();
      } else {
        follow();
      }
      break;
    case Phase::kCompute:
      if (world_.now_ >= compute_until_) {
        compute_ends();
      } else {
        train_soon(compute_until_ - world_.now_, compute_until_ - world_.now_ + 50);
      }
      break;
    case Phase::kHeld:
      arrive();
      break;
    case Phase::kArrived:
      if (block().all_arrived(computing_)) reduce();
      break;
    case Phase::kReduced:
      if (block().complete() >= computing_ && !block().closed) complete();
      break;
  }
}

// Whether what it waits for on the board has happened.
bool Process::waits_no_more() {
  switch (phase_) {
    case Phase::kArrived:
      return block().all_arrived(computing_);
    case Phase::kReduced:
      return block().complete() >= computing_ && !block().closed;
    case Phase::kHeld:
    case Phase::kObserve:
    case Phase::kDepart:
      return true;
    case Phase::kIdle:
    case Phase::kFill:
    case Phase::kCompute:
    case Phase::kWaitEnd:
      return false;
  }
  return false;
}

bool Process::take_event() {
  if (news_.empty()) return false;
  const Event event = news_.front();
  news_.pop_front();
  train_soon(1, event == Event::kFound ? 6000 : 40);  // the states must be made first
  switch (event) {
    case Event::kFound:
      segment().version = machine_.log().newest()->first_step;
      segment().state = world_.reference_.state(segment().version);
      has_state_ = true;
      phase_ = Phase::kFill;
      break;
    case Event::kObserve:
      if (phase_ != Phase::kObserve) has_state_ = false;
      phase_ = Phase::kObserve;
      break;
    case Event::kStart:
      if (ViewPtr started = std::exchange(to_start_, nullptr)) enter(started);
      break;
    case Event::kFinished:
      world_.reports_success(*this, nullptr, segment().version);
      depart("the job is done");
      break;
    case Event::kLeave:
      end("it leaves");
      break;
  }
  return true;
}

void Process::apply(Step step, const Gradient& gradient) {
  if (gradient != world_.reference_.gradient(step)) {
    world_.violate(fmt::format("worker {}: the gradient of step {} is wrong", id_, step));
  }
  segment().state = state_after(segment().state, gradient);
  segment().version = step + 1;
  if (segment().state != world_.reference_.state(step + 1)) {
    world_.violate(fmt::format("worker {}: the state after step {} is wrong", id_, step));
  }
}

// Copies the state of a member and applies what became complete since, until it is admitted.
void Process::follow() {
  Segment& own = segment();
  if (!has_state_) {
    if (!donor_) {
      world_.after(kFailureTimeout, id_, {GiveUpState{}});
      return;
    }
    if (process(*donor_).node_ != node_) {
      ask_state();
      return;
    }
    const Segment& from = world_.segments_[static_cast<std::size_t>(*donor_)];
    if (from.version <= board_->completed) {  // it soon will have applied that
      train_soon(5'000, 40'000);
      return;
    }
    own.state = from.state;
    own.version = from.version;
    has_state_ = true;
    train_soon(100, 3000);
    return;
  }
  // The last member may have died when it had reduced its last step and not yet said that the step
  // is complete. Nobody but the newcomers of the next view is left to say so.
  const Block& seen = board_->block(observed_->number);
  const Step newer = board_->completed + 1;
  const bool last = seen.view == observed_->number && seen.next != 0 && !seen.rows.empty() &&
                    seen.next_first_step == newer + 1;
  if (last && !frozen_ && seen.complete() >= newer) mark_completed(newer);
  if (own.version > board_->completed + 1) return;  // it has a step that this board lacks
  while (own.version <= board_->completed) {
    if (board_->gradient_tag(own.version) != own.version) {
      has_state_ = false;  // overwritten: start over
      train_soon();
      return;
    }
    apply(own.version, board_->gradient_of(own.version));
  }
  if (own.version != board_->completed + 1 ||
      board_->block(observed_->number).view != observed_->number) {
    return;
  }
  if (!said_follows_) {
    said_follows_ = true;
    answer(1, 100, FollowsNow{});
  }
  if (interrupted_) return;
  // Several views may already follow the one it observed last.
  for (ViewNumber number = observed_->number;;) {
    const Block& at = board_->block(number);
    if (at.view != number || at.next == 0 || board_->completed < at.next_first_step - 1) return;
    const auto prepared = prepared_.find(at.next);
    if (at.next_first_step == own.version && prepared != prepared_.end() &&
        prepared->second.first == at.proposal && prepared->second.second->find(id_) != nullptr) {
      View next = *prepared->second.second;
      next.first_step = at.next_first_step;
      enter(std::make_shared<const View>(std::move(next)));
      return;
    }
    number = at.next;
  }
}

// Brings the state to the first step of the view and begins.
void Process::enter(const ViewPtr& view) {
  Segment& own = segment();
  if (phase_ == Phase::kObserve) {
    while (has_state_ && own.version < view->first_step &&
           board_->gradient_tag(own.version) == own.version && own.version <= board_->completed) {
      apply(own.version, board_->gradient_of(own.version));
    }
    if (!has_state_ || own.version > view->first_step) {
      end("the state did not arrive in time");
      return;
    }
  }
  if (phase_ == Phase::kObserve && own.version < view->first_step - 1) {
    end("the state did not arrive in time");
    return;
  }
  if (own.version == view->first_step - 1) {  // complete, but it was interrupted before it knew
    apply(own.version, board_->gradient_of(own.version));
  }
  if (own.version != view->first_step) {
    world_.violate(fmt::format("worker {}: view {} starts at step {}, but the state is at {}", id_,
                               view->number, view->first_step, own.version));
    return;
  }
  world_.entered(*view);
  if (phase_ == Phase::kObserve) tell_donor(view->number);
  view_ = view;
  position_ = static_cast<std::size_t>(view->position(id_));
  board_->used = true;
  if (!frozen_ && !to_start_ && !told_to_leave_) interrupted_ = false;
  std::erase_if(prepared_, [&](const auto& entry) { return entry.first <= view->number; });
  std::erase_if(mapping_, [&](const auto& entry) { return entry.first <= view->number; });
  answer(1, 200, Entered{view});
  compute_next();
}

void Process::compute_next() {
  computing_ = segment().version;
  if (computing_ >= world_.last_step_) {
    phase_ = Phase::kWaitEnd;
    if (leads()) train_soon(100, 5000);  // writes the result
    return;
  }
  phase_ = Phase::kCompute;
  compute_until_ = world_.now_ + world_.random_.between(10'000, 60'000);
  train_soon(compute_until_ - world_.now_, compute_until_ - world_.now_ + 50);
}

void Process::compute_ends() {
  world_.computed(view_->number, computing_);
  const Member& self = *view_->find(id_);
  const Hash state = segment().state;
  for (int l = self.hosts.begin; l < self.hosts.end; ++l) {
    const Hash before = board_->slot_before(l, computing_);
    if (before != world_.reference_.slot(l, computing_)) {
      world_.violate(fmt::format("worker {}: private state of {} before step {} is wrong", id_, l,
                                 computing_));
    }
    segment().sum[static_cast<std::size_t>(l)] = sum_of(state, before, l, computing_);
    board_->slot_before(l, computing_ + 1) = slot_after(before, state, computing_);
  }
  phase_ = Phase::kHeld;
  arrive();
}

void Process::published() {
  check_publishing(*view_);
  pulse();
}

void Process::arrive() {
  if (hold_ && held_ == computing_) return;
  block().rows[position_].arrived = computing_;
  phase_ = Phase::kArrived;
  published();
}

void Process::reduce() {
  std::array<Hash, kLogical> sums{};
  for (const Member& member : view_->members) {
    const std::array<Hash, kLogical>& of = sums_of(member.address);
    for (int l = member.hosts.begin; l < member.hosts.end; ++l) {
      sums[static_cast<std::size_t>(l)] = of[static_cast<std::size_t>(l)];
    }
  }
  board_->gradient_tag(computing_) = -2 - computing_;
  const auto members = static_cast<int>(view_->members.size());
  const auto at = static_cast<int>(position_);
  for (int piece = kLogical * at / members; piece < kLogical * (at + 1) / members; ++piece) {
    board_->gradient_of(computing_)[static_cast<std::size_t>(piece)] = piece_of(sums, piece);
  }
  block().rows[position_].reduced = computing_;
  if (block().complete() >= computing_) world_.complete_on_a_board(view_->number, computing_);
  phase_ = Phase::kReduced;
  published();
}

void Process::mark_completed(Step step) {
  board_->completed = std::max(board_->completed, step);
  if (board_->gradient_tag(step) == -2 - step) board_->gradient_tag(step) = step;
}

void Process::complete() {
  mark_completed(computing_);
  world_.completed(*this, *view_, computing_);
  published();
  const Step step = computing_;
  if (board_->completed > step) {
    // It leaves with this step and comes late: the gradient may have been overwritten. Nobody
    // copies a state that old.
    segment().version = step + 1;
    segment().state = 0;
  } else {
    apply(step, board_->gradient_of(step));
  }
  after_step(step);
}

void Process::after_step(Step step) {
  if (leads() && (step + 1) % 8 == 0) {
    world_.checkpoint_ = std::max(world_.checkpoint_, step + 1);
  }
  const Block& at = block();
  if (at.next == 0 || at.next_first_step != step + 1) {
    compute_next();
    return;
  }
  const auto prepared = prepared_.find(at.next);
  if (prepared == prepared_.end() || prepared->second.first != at.proposal) {
    world_.violate(fmt::format("worker {}: announced view {} was not prepared", id_, at.next));
    return;
  }
  View next = *prepared->second.second;
  next.first_step = at.next_first_step;
  if (next.find(id_) != nullptr) {
    enter(std::make_shared<const View>(std::move(next)));
    return;
  }
  depart("not in the next view");
}

}  // namespace rubato::elastic::membership::sim
