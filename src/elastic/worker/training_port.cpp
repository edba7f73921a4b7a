#include "elastic/worker/training_port.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace rubato::elastic {

using membership::Input;
using membership::ViewPtr;
using std::chrono::steady_clock;

// --- The training thread's side ------------------------------------------------------------------

std::optional<TrainingPort::Event> TrainingPort::wait_event(std::chrono::milliseconds at_most) {
  const auto deadline = steady_clock::now() + at_most;
  const MutexLock lock(mutex_);
  while (events_.empty()) {
    if (!changed_.wait_until(mutex_, deadline)) break;
  }
  if (events_.empty()) return std::nullopt;
  const Event event = events_.front();
  events_.erase(events_.begin());
  return event;
}

bool TrainingPort::pending() {
  const MutexLock lock(mutex_);
  return !events_.empty();
}

std::shared_ptr<const ActiveView> TrainingPort::started_view() {
  const MutexLock lock(mutex_);
  return std::exchange(to_start_, nullptr);
}

std::string TrainingPort::reason() {
  const MutexLock lock(mutex_);
  return farewell_.reason;
}

bool TrainingPort::was_refused() {
  const MutexLock lock(mutex_);
  return farewell_.refused;
}

std::shared_ptr<const Donor> TrainingPort::donor() {
  const MutexLock lock(mutex_);
  return donor_;
}

bool TrainingPort::sees_view() {
  const MutexLock lock(mutex_);
  return observed_ && board_->block(observed_->number).view == observed_->number;
}

bool TrainingPort::sees_training() {
  const MutexLock lock(mutex_);
  return observed_ && board_->completed() >= observed_->first_step;
}

void TrainingPort::ready(bool is_ready) { add_input(membership::FollowsNow{is_ready}); }
void TrainingPort::filled() { add_input(membership::Filled{}); }
void TrainingPort::finish() { add_input(membership::Finishes{}); }

bool TrainingPort::publish(const std::function<void()>& write) {
  {
    const MutexLock lock(mutex_);
    if (interrupted_) return false;
    write();
  }
  board_->pulse();
  return true;
}

void TrainingPort::begins(std::int64_t step) {
  const MutexLock lock(mutex_);
  holding_.next_arrival = step;
  if (holding_.wanted_for) held_at(step);
}

void TrainingPort::before_arrival(std::int64_t step) {
  const MutexLock lock(mutex_);
  holding_.next_arrival.reset();
  while (holding_.held == step && !interrupted_) changed_.wait(mutex_);
}

// What was announced. Everybody who is in this view or in the next has prepared it before.
const TrainingPort::Prepared* TrainingPort::announced(const Announcement& next) const {
  const auto found = prepared_.find(next.view);
  if (found == prepared_.end() || found->second.proposal != next.proposal) return nullptr;
  return &found->second;
}

namespace {

// The prepared view as it was committed.
std::shared_ptr<const ActiveView> committed(const ActiveView& prepared, const Announcement& next) {
  auto view = std::make_shared<ActiveView>(prepared);
  view->view.first_step = next.first_step;
  view->view.prepare_s = static_cast<double>(next.prepare_us) * 1e-6;
  return view;
}

}  // namespace

TrainingPort::Next TrainingPort::after_step(const ActiveView& view, std::int64_t step) {
  const MutexLock lock(mutex_);
  if (interrupted_) return {.kind = Next::Kind::kInterrupted};
  const Announcement next = view.block->announcement();
  // Others may be many views ahead of a worker that leaves.
  if (view.block->view != view.view.number) return {.kind = Next::Kind::kGone};
  if (next.view == 0 || next.first_step != step + 1) return {.kind = Next::Kind::kSame};
  const Prepared* const following = announced(next);
  RUBATO_CHECK(following != nullptr, "a view was announced that a member has not prepared");
  if (!following->active) {
    return {.kind = Next::Kind::kGone, .view = nullptr, .job_stops = following->view->empty()};
  }
  return {.kind = Next::Kind::kSwitch, .view = committed(*following->active, next)};
}

std::shared_ptr<const ActiveView> TrainingPort::admitted_at(std::int64_t step) {
  const MutexLock lock(mutex_);
  if (interrupted_ || !observed_) return nullptr;
  // Several views may already follow the one it observed last.
  for (std::int64_t number = observed_->number;;) {
    const ViewBlock& block = board_->block(number);
    if (block.view != number) return nullptr;
    const Announcement next = block.announcement();
    if (next.view == 0 || board_->completed() < next.first_step - 1) return nullptr;
    // A view that is started by message begins only then: it may be on this board before the
    // streams to other nodes are open.
    const Prepared* const following = announced(next);
    if (next.first_step == step && following != nullptr && following->active) {
      return committed(*following->active, next);
    }
    number = next.view;
  }
}

void TrainingPort::entered(const std::shared_ptr<const ActiveView>& view) {
  const MutexLock lock(mutex_);
  // A freeze, the start of a later view, or an exclusion that arrived meanwhile still applies.
  if (!frozen_ && !to_start_ && !farewell_.excluded) interrupted_ = false;
  prepared_.erase(prepared_.begin(), prepared_.upper_bound(view->view.number));
  board_->used() = 1;
  holding_.next_arrival.reset();  // of a step that was interrupted
  if (donor_) donor_->cancel();
  donor_.reset();
  // A copy: whoever remembers the view must not keep its memory mapped.
  inputs_.emplace_back(membership::Entered{std::make_shared<const View>(view->view)});
  wake_();
}

void TrainingPort::depart(std::chrono::milliseconds at_most) {
  const auto deadline = steady_clock::now() + at_most;
  const MutexLock lock(mutex_);
  farewell_.departing = true;
  wake_();
  while (!farewell_.departed) {
    if (!changed_.wait_until(mutex_, deadline)) break;
  }
}

// --- The membership's side -----------------------------------------------------------------------

std::vector<Input> TrainingPort::take_inputs() {
  const MutexLock lock(mutex_);
  if (wants_to_leave_.exchange(false)) inputs_.emplace_back(membership::AsksToLeave{});
  return std::exchange(inputs_, {});
}

void TrainingPort::add_input(Input input) {
  {
    const MutexLock lock(mutex_);
    inputs_.push_back(std::move(input));
  }
  wake_();
}

bool TrainingPort::departing() {
  const MutexLock lock(mutex_);
  return farewell_.departing && !farewell_.departed;
}

void TrainingPort::departed(bool delivered) {
  {
    const MutexLock lock(mutex_);
    farewell_.departed = true;
    farewell_.delivered = delivered;
  }
  changed_.notify_all();
}

bool TrainingPort::delivered() {
  const MutexLock lock(mutex_);
  return farewell_.delivered;
}

void TrainingPort::set_board(const Board& board, const DataBoard* data) {
  board_ = &board;
  data_board_ = data;
}

void TrainingPort::raise(Event event) {
  {
    const MutexLock lock(mutex_);
    events_.push_back(event);
  }
  changed_.notify_all();
}

void TrainingPort::leave(const std::string& why, bool refused) {
  {
    const MutexLock lock(mutex_);
    farewell_.reason = why;
    farewell_.refused = refused;
    farewell_.excluded = true;
    interrupted_ = true;
    if (donor_) donor_->cancel();
  }
  raise(Event::kLeave);
  if (board_ != nullptr) board_->pulse();
}

void TrainingPort::observe(const ViewPtr& view) {
  const MutexLock lock(mutex_);
  observed_ = view;
}

void TrainingPort::set_donor(std::shared_ptr<const Donor> donor) {
  const MutexLock lock(mutex_);
  if (donor_) donor_->cancel();
  donor_ = std::move(donor);
}

void TrainingPort::stop_publishing() {
  {
    const MutexLock lock(mutex_);
    frozen_ = true;
    interrupted_ = true;
    holding_.wanted_for.reset();
    holding_.held.reset();
  }
  changed_.notify_all();
  if (board_ != nullptr) board_->pulse();
}

void TrainingPort::interrupt() {
  {
    const MutexLock lock(mutex_);
    interrupted_ = true;
  }
  changed_.notify_all();
  if (board_ != nullptr) board_->pulse();
}

bool TrainingPort::frozen() {
  const MutexLock lock(mutex_);
  return frozen_;
}

void TrainingPort::held_at(std::int64_t step) {
  inputs_.emplace_back(membership::Held{*holding_.wanted_for, step});
  holding_.wanted_for.reset();
  holding_.held = step;
  wake_();
}

void TrainingPort::hold(const membership::Proposal& proposal) {
  const MutexLock lock(mutex_);
  holding_.wanted_for = proposal;
  if (holding_.next_arrival) held_at(*holding_.next_arrival);
}

void TrainingPort::release() {
  {
    const MutexLock lock(mutex_);
    holding_.wanted_for.reset();
    holding_.held.reset();
  }
  changed_.notify_all();
}

void TrainingPort::announce(const View& view, const membership::Proposal& proposal) {
  {
    const MutexLock lock(mutex_);
    // Not before it is committed: if another view has won the number, its block is in use.
    board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
    board_->block(view.number - 1)
        .announce({.view = view.number,
                   .first_step = view.first_step,
                   .proposal = proposal,
                   .prepare_us = std::llround(view.prepare_s * 1e6)});
  }
  release();
}

void TrainingPort::prepared(const ViewPtr& view, const membership::Proposal& proposal,
                            std::shared_ptr<const ActiveView> active) {
  const MutexLock lock(mutex_);
  prepared_[view->number] = {proposal, view, std::move(active)};
}

void TrainingPort::start(std::shared_ptr<const ActiveView> view) {
  {
    const MutexLock lock(mutex_);
    prepared_.erase(prepared_.begin(), prepared_.upper_bound(view->view.number));
    to_start_ = std::move(view);
    frozen_ = false;
    interrupted_ = true;
  }
  raise(Event::kStart);
  board_->pulse();
}

}  // namespace rubato::elastic
