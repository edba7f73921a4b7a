// Newcomers on a node without members: one of them keeps their board up to date with what a member
// of another node answers, as elastic/transport/feed.h; all of them copy the state from there.
#include <algorithm>

#include "elastic/transport/bridge_layout.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

constexpr Micros kAskAgain = 12'000;

}  // namespace

// Whether the board of this worker may need feeding by it.
bool Process::feeds() const {
  const ViewPtr& newest = machine_.log().newest();
  if (view_ || restoring_ || frozen_ || ended_ || !observed_ || board_ == nullptr) return false;
  if (observed_->find(id_) != nullptr || gateway_of(*observed_, node_name()) >= 0) return false;
  // Also as a member of the next view, until the board says that it begins.
  return gateway_of(*newest, node_name()) < 0 ||
         (newest->planned() && newest->find(id_) != nullptr);
}

bool Process::members_here(ViewNumber number, bool* known) const {
  const ViewPtr of = committed(number);
  *known = of != nullptr;
  return of && gateway_of(*of, node_name()) >= 0;
}

// Whether members of this node keep the board up to date, or will, or nobody knows yet. An earlier
// feeder may have known newer views than this worker.
bool Process::nothing_to_feed() const {
  const ViewNumber from = std::max(observed_->number, board_->newest_view());
  const Block& block = board_->block(from);
  const auto theirs = [&](ViewNumber number) {
    bool known = true;
    return members_here(number, &known) || !known;
  };
  return (from > observed_->number && theirs(from)) ||
         (block.view == from && block.next != 0 && theirs(block.next));
}

void Process::feed_now_and_then() {
  if (view_ || ended_) return;  // never again
  feed();
  const Micros pause = feed_ ? kAskAgain : 4 * kAskAgain;
  world_.after(pause + world_.random_.below(pause), id_, {FeedDue{}});
}

void Process::feed() {
  if (!feeds() || board_->used) {
    stop_feeding();  // a member of the next view may take over
    // Former members, stopped or leaving, may still write to it.
    if (feeds() && !nothing_to_feed()) {
      input(BoardFailed{"all other workers of this node have left the job"});
    }
    return;
  }
  if (!feed_) {
    const int holder = board_->feeder;
    if ((holder >= 0 && process(holder).alive_) || nothing_to_feed()) return;
    const ViewNumber from = std::max(observed_->number, board_->newest_view());
    const Block& block = board_->block(from);
    const bool has = block.view == from && !block.rows.empty();
    feed_ = has ? Feed{.view = from, .step = block.complete()} : Feed{};
    board_->feeder = id_;
  }
  const auto usable = [&](int worker) {
    return observed_->find(worker) != nullptr && peer(worker).connection != 0;
  };
  if (feed_->serial != 0 && usable(feed_->donor)) return;
  if (feed_->donor < 0 || !usable(feed_->donor)) {
    // Preferably the leader: it does not leave before all nodes know the next view.
    feed_->donor = usable(observed_->leader) ? observed_->leader : -1;
    for (const Member& member : observed_->members) {
      if (feed_->donor < 0 && usable(member.address.id)) feed_->donor = member.address.id;
    }
    if (feed_->donor < 0) return;
  }
  Process& donor = process(feed_->donor);
  feed_->serial = static_cast<std::int64_t>(++world_.order_);
  Micros last = 0;
  world_.at(world_.arrival(*this, donor, last), donor.id_,
            {AskFeed{id_, feed_->view, feed_->step, feed_->serial}});
}

void Process::stop_feeding() {
  if (feed_) board_->feeder = -1;
  feed_.reset();
}

// --- The member's side ---------------------------------------------------------------------------

void Process::answer_feed(const AskFeed& request) {
  if (ended_ || board_ == nullptr) return;
  FeedAnswer answer;
  const bool founding = std::holds_alternative<state::Founding>(machine_.state());
  const auto* founder = std::get_if<state::Founding>(&machine_.state());
  if ((view_ || founding) && (founder == nullptr || founder->filled)) {
    const auto known = std::find_if(fed_.begin(), fed_.end(),
                                    [&](const auto& each) { return each.first == request.from; });
    if (known != fed_.end()) {
      known->second = request.view;
    } else {
      fed_.emplace_back(request.from, request.view);
    }
    answer = next_for(request);
    if (phase_ == Phase::kDepart && try_depart()) return;
  }
  answer.serial = request.serial;
  Micros last = 0;
  Process& to = process(request.from);
  world_.at(world_.arrival(*this, to, last), to.id_, {answer});
}

FeedAnswer Process::next_for(const AskFeed& request) {
  const Block& block = board_->block(request.view);
  if (request.view == 0 || block.view != request.view) return feed_snapshot();
  // The newcomer may know the view from a node that was lost together with the only step that made
  // it begin. The job has since continued differently from the previous view.
  if (current()->number > request.view && block.next == 0) return feed_snapshot();
  FeedAnswer answer{.announced = request.view};
  if (block.next != 0 && block.next_first_step - 1 <= request.step) {
    const Block& following = board_->block(block.next);
    if (following.view != block.next) return feed_snapshot();
    answer.kind = FeedAnswer::Kind::kAnnounce;
    answer.announced = block.next;
    answer.step = block.next_first_step;
    answer.members = following.rows.size();
    answer.proposal = block.proposal;
    return answer;
  }
  const Step done = board_->completed;
  if (done <= request.step) return answer;
  Step step = request.step + 1;
  if (done > step + 1) step = done;  // its gradient is already overwritten or soon will be
  if (block.next != 0) step = std::min(step, block.next_first_step - 1);
  const Step mark = board_->gradient_tag(step);
  if (mark == -2 - step) return answer;  // soon
  answer.kind = FeedAnswer::Kind::kStep;
  answer.step = step;
  answer.with_gradient = step == request.step + 1 && mark == step;
  answer.with_slots = step == done;  // else the step after the next one overwrites them
  answer.gradient = board_->gradient_of(step);
  for (int l = 0; l < kLogical; ++l) {
    answer.slots[static_cast<std::size_t>(l)] = board_->slot_before(l, step + 1);
  }
  return answer;
}

FeedAnswer Process::feed_snapshot() {
  ViewNumber number = current()->number;
  const Step step = board_->completed;
  for (;;) {
    const Block& block = board_->block(number);
    if (block.view != number || block.rows.empty()) return {};
    // A later view may have begun that this worker does not know yet.
    if (block.next != 0 && block.next_first_step - 1 < step) {
      number = block.next;
      continue;
    }
    FeedAnswer answer{
        .kind = FeedAnswer::Kind::kSnapshot, .with_slots = true, .announced = number, .step = step};
    answer.members = block.rows.size();
    for (int l = 0; l < kLogical; ++l) {
      answer.slots[static_cast<std::size_t>(l)] = board_->slot_before(l, step + 1);
    }
    return answer;
  }
}

// --- The newcomer's side -------------------------------------------------------------------------

void Process::take_feed(const FeedAnswer& answer) {
  if (!feed_ || ended_) return;
  if (feed_->serial != answer.serial) return;
  feed_->serial = 0;
  const auto take_slots = [&](Step step) {
    for (int l = 0; l < kLogical; ++l) {
      board_->slot_before(l, step + 1) = answer.slots[static_cast<std::size_t>(l)];
    }
    if (answer.with_slots) board_->fed_slots = step;
    board_->completed = std::max(board_->completed, step);
    feed_->step = step;
  };
  bool known = true;
  switch (answer.kind) {
    case FeedAnswer::Kind::kNothing:
      return;
    case FeedAnswer::Kind::kSnapshot:
      // A view in which this node has members is not the feed's to report.
      if (members_here(answer.announced, &known) || !known) return;
      board_->gradient_step = {kNever, kNever};
      board_->open(answer.announced, answer.members, answer.step + 1);
      feed_->view = answer.announced;
      board_->completed = answer.step;  // less than before, if the job has restarted meanwhile
      take_slots(answer.step);
      break;
    case FeedAnswer::Kind::kStep: {
      if (answer.announced != feed_->view || answer.step <= feed_->step) return;
      board_->gradient_tag(answer.step) = -2 - answer.step;
      if (answer.with_gradient) {
        board_->gradient_of(answer.step) = answer.gradient;
        board_->gradient_tag(answer.step) = answer.step;
      }
      for (Row& row : board_->block(feed_->view).rows) row = {answer.step, answer.step};
      take_slots(answer.step);
      break;
    }
    case FeedAnswer::Kind::kAnnounce: {
      if (answer.announced <= feed_->view || answer.step - 1 > feed_->step) return;
      const bool ends = members_here(answer.announced, &known);
      if (!known) return;
      Block& block = board_->block(feed_->view);
      feed_->view = answer.announced;
      if (!ends || committed(answer.announced)->planned()) {
        board_->open(answer.announced, answer.members, answer.step);
        block.next_first_step = answer.step;
        block.next = answer.announced;
        block.proposal = answer.proposal;
      }
      if (ends) stop_feeding();
      break;
    }
  }
  // NOLINTNEXTLINE(modernize-loop-convert): it may change meanwhile
  for (std::size_t i = 0; i < board_->at.size(); ++i) board_->at[i]->facts();
  pulse();
  if (feed_) feed();
}

// It needs the leader no longer.
void Process::tell_donor(ViewNumber entered) {
  if (gateway_of(*observed_, node_name()) >= 0) return;
  Process& leader = process(observed_->leader);
  Micros last = 0;
  world_.at(world_.arrival(*this, leader, last), leader.id_, {AskFeed{id_, entered, kNever, 0}});
}

// --- State of a member of another node -----------------------------------------------------------

void Process::ask_state() {
  if (asked_state_) return;
  asked_state_ = true;
  Process& donor = process(*donor_);
  Micros last = 0;
  world_.at(world_.arrival(*this, donor, last) + world_.random_.between(100, 3000), donor.id_,
            {AskState{id_}});
}

void Process::take_state(const StateAnswer& answer) {
  if (donor_ != answer.donor || !asked_state_) return;
  asked_state_ = false;
  if (phase_ != Phase::kObserve || has_state_) return;
  if (answer.version > board_->completed) {  // else it soon will have applied that
    segment().state = answer.state;
    segment().version = answer.version;
    has_state_ = true;
  }
  train_soon(5'000, 40'000);
}

}  // namespace rubato::elastic::membership::sim
