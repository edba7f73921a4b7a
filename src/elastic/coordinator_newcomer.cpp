// How a worker enters a job: it founds the job, or follows the others' view until it is a member.
#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "elastic/coordinator.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

}  // namespace

bool Coordinator::enter_job() {
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) {
    leave(latest.error().message);
    return false;
  }
  if (!latest->empty()) {
    Status adopted = adopt_board(*latest);
    if (!adopted.ok()) {
      leave(adopted.error().message);
      return false;
    }
    current_ = *latest;
    {
      const MutexLock lock(mutex_);
      observed_ = current_.number;
      observed_first_step_ = current_.first_step;
    }
    for (const Member& member : current_.members) mesh_->want(member.address, true);
    return true;
  }
  const std::string name = founders_board_name(options_.settings.token, node(), options_.worker);
  Result<Board> board = Board::create(name, {.logical_workers = options_.logical_slots,
                                             .gradient_floats = options_.shape.gradient_floats,
                                             .private_bytes = options_.shape.private_bytes,
                                             .batch = options_.data ? 0 : options_.batch});
  // The next founder on this machine would fail in the same way: the launcher must count it as a
  // failure, not as a worker that the job went on without.
  const auto cannot_found = [this](const Error& error) {
    {
      const MutexLock lock(mutex_);
      refused_ = true;
    }
    leave(error.message);
    return false;
  };
  if (!board.ok()) return cannot_found(board.error());
  std::optional<DataBoard> data;
  if (options_.data) {
    Result<DataBoard> made = DataBoard::create(DataBoard::name_for(name), *options_.data);
    if (!made.ok()) {
      remove_segment(name);
      return cannot_found(made.error());
    }
    data.emplace(std::move(*made));
  }
  mesh_->set_board(name);
  View view{.number = latest->number + 1,
            .first_step = options_.first_step,
            .cause = latest->number == 0 ? "start" : "restart",
            .leader = id(),
            .board = name,
            .members = {{mesh_->self(), {0, options_.batches.logical_workers(1)}}},
            .batch = options_.batches.batch(1, 1, 0),
            .audits = latest->audits};
  board->start_block(view.number, 1, view.first_step);
  board->completed() = view.first_step - 1;
  // There is no gradient for it, but everything else that nodes without members may ask for
  // (feed.h).
  board->gradient_step(view.first_step - 1) = -2 - (view.first_step - 1);
  const Result<bool> won =
      registry_.compare_and_swap(kViewRecord, latest->number, compact_json(to_json(view)));
  if (!won.ok()) leave(won.error().message);
  if (!won.ok() || !*won) {
    remove_segment(name);
    if (data) remove_segment(DataBoard::name_for(name));
    return false;
  }
  {
    const MutexLock lock(mutex_);
    board_.emplace(std::move(*board));
    data_board_ = std::move(data);
  }
  steps_before_restart_ = latest->first_step;
  current_ = view;
  active_number_ = view.number;
  founding_ = true;
  founded_at_ = steady_clock::now();
  raise(Event::kFound);
  return true;
}

void Coordinator::be_newcomer(bool say_ready) {
  if (current_.find(id()) != nullptr) return;  // started; the training thread is about to enter
  if (joined_leader_ != current_.leader && mesh_->connected(current_.leader)) {
    joined_leader_ = current_.leader;
    said_ready_ = false;
    nlohmann::json traits = nlohmann::json::object();
    for (const Program::Trait& trait : options_.fingerprint) traits[trait.name] = trait.value;
    mesh_->send(current_.leader, Message::kJoin,
                {{"address", to_json(mesh_->self())},
                 {"description", options_.description},
                 {"fingerprint", traits}});
    return;
  }
  if (say_ready && joined_leader_ == current_.leader) {
    said_ready_ = true;
    mesh_->send(current_.leader, Message::kReady, {});
  }
  // Copy the state of any member that is alive.
  const bool all_lost = std::all_of(current_.members.begin(), current_.members.end(),
                                    [&](const Member& m) { return lost_.contains(m.address.id); });
  if (all_lost && !current_.empty()) {
    const std::int64_t before = current_.number;
    follow_registry();  // they may have handed over, perhaps to this worker
    if (gone_ || current_.number != before || latest_.find(id()) != nullptr) return;
    leave("all workers of the job are gone");
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (donor_ && donor_worker_ >= 0 && current_.find(donor_worker_) != nullptr &&
        !lost_.contains(donor_worker_)) {
      return;
    }
  }
  int worker = -1;
  std::shared_ptr<const Donor> donor = choose_donor(&worker);
  const MutexLock lock(mutex_);
  if (donor_) donor_->cancel();
  donor_ = std::move(donor);
  donor_worker_ = worker;
}

void Coordinator::acknowledge_prepared() {
  if (!to_prepare_->touch) {
    for (const Member& member : to_prepare_->view.members) {
      if (member.address.id != id() && !mesh_->connected(member.address.id)) return;
    }
    Result<std::shared_ptr<const ActiveView>> active = map_view(to_prepare_->view);
    if (!active.ok()) return;  // the leader gives up after a while
    to_prepare_->touch = std::make_unique<MemoryTouch>(*active, *board_);
  }
  // The board of a newcomer's node, if it has no members, may lag behind the view or have been
  // abandoned. Without the previous view on it, the newcomer would never see this one begin.
  const std::int64_t before = to_prepare_->view.number - 1;
  if (board_->block(before).view != before) return;
  // If memory is short, the leader gives up as well.
  if (!to_prepare_->touch->done() || to_prepare_->touch->failed()) return;
  if (!bridge_ready(to_prepare_->touch->view())) return;
  {
    const MutexLock lock(mutex_);
    prepared_[to_prepare_->view.number] = to_prepare_->touch->view();
  }
  mesh_->send(to_prepare_->leader, Message::kPrepared, {{"attempt", to_prepare_->attempt}});
  to_prepare_.reset();
}

void Coordinator::follow_registry() {
  last_registry_look_ = steady_clock::now();
  Result<Target> target = newest_target(registry_);
  if (target.ok()) target_ = *target;
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) return;
  if (latest->number > latest_.number) latest_ = *latest;
  if (latest_.number <= current_.number) return;
  if (current_.find(id()) != nullptr) {
    // A planned change reaches the training thread through the board. If a failure view lacks this
    // worker, the others consider it dead.
    if (latest_.find(id()) == nullptr &&
        (latest_.cause == "failure" || latest_.cause == "restart")) {
      leave("the others continued without this worker");
    }
    return;
  }
  if (latest_.empty()) {
    leave("the job was stopped or is restarting");
    return;
  }
  // A view with this worker as a member comes first, even if the view after it lacks this worker:
  // it may have begun, and then nobody makes progress without this worker. admitted_at() or kStart
  // lets it enter.
  for (std::int64_t number = current_.number + 1; number <= latest_.number; ++number) {
    const std::optional<View> view = view_at(number);
    if (!view || view->find(id()) != nullptr) break;
    current_ = *view;
    const MutexLock lock(mutex_);
    observed_ = current_.number;
    observed_first_step_ = current_.first_step;
  }
  for (const Member& other : current_.members) mesh_->want(other.address, true);
}

}  // namespace rubato::elastic
