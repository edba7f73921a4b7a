// Failures: survivors agree on how far the view came and go on without the lost ones.
//
// Why it is safe. A frozen worker publishes nothing, so once every member of the views in question
// is frozen or excluded, the last complete step can no longer change for anybody who counts: the
// survivors obey the first step of the next view. An excluded worker may still write to the board
// until it is dead; the next view starts only after that. What it wrote is either a slice of a step
// that is repeated (and overwritten with the same bits) or nothing anybody reads.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "elastic/coordinator.h"
#include "elastic/hosting.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

// For a worker that gave up and said so: its launcher should see how it ended.
constexpr auto kTimeToEnd = std::chrono::milliseconds(500);

}  // namespace

void Coordinator::on_freeze(int peer) {
  {
    const MutexLock lock(mutex_);
    frozen_ = true;
    interrupted_ = true;
    proposal_.reset();
  }
  change_.reset();
  if (board_) board_->pulse();
  if (peer != id()) mesh_->send(peer, Message::kFrozen, {});
}

void Coordinator::recover() {
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) return;  // tried again at the next tick
  latest_ = *latest;
  if (latest_.number > current_.number && latest_.find(id()) == nullptr) {
    leave("the others went on without this worker");
    return;
  }
  Recovery recovery;
  recovery.latest = latest_;
  recovery.began = steady_clock::now();
  // Everybody who may still publish: the members of all views from the one that runs here on.
  std::set<int> everybody;
  for (std::int64_t number = current_.number; number <= latest_.number; ++number) {
    if (number == current_.number) {
      for (const int worker : current_.ids()) everybody.insert(worker);
      continue;
    }
    const std::optional<View> view = view_at(number);
    if (!view) continue;
    for (const int worker : view->ids()) everybody.insert(worker);
  }
  on_freeze(id());
  for (const int worker : everybody) {
    if (worker == id()) continue;
    // Whom this worker has never met, or has seen go, will not answer.
    if (lost_.contains(worker) || !peers_.contains(worker)) {
      recovery.to_fence.insert(worker);
    } else {
      recovery.unfrozen.insert(worker);
      recovery.audience.insert(worker);
      mesh_->send(worker, Message::kFreeze, {});
    }
  }
  recovery_ = std::move(recovery);
  continue_recovery();
}

std::int64_t Coordinator::first_step_after_failure() const {
  return last_begun_block().complete() + 1;
}

void Coordinator::continue_recovery() {
  Recovery& recovery = *recovery_;
  // A worker that was lost meanwhile changes the question; ask again from the start.
  const bool another_lost = std::any_of(recovery.audience.begin(), recovery.audience.end(),
                                        [&](int worker) { return lost_.contains(worker); });
  if (another_lost) {
    recover();
    return;
  }
  if (!recovery.unfrozen.empty()) return;

  if (!recovery.committed) {
    View view{.number = recovery.latest.number + 1,
              .first_step = first_step_after_failure(),
              .cause = "failure",
              .leader = id(),
              .board = recovery.latest.board};
    std::vector<WorkerAddress> survivors;
    for (const Member& member : recovery.latest.members) {
      if (!lost_.contains(member.address.id)) survivors.push_back(member.address);
    }
    host_evenly(view, survivors);
    view.prepare_s = std::chrono::duration<double>(steady_clock::now() - recovery.began).count();
    const Result<bool> won =
        registry_.compare_and_swap(kViewRecord, recovery.latest.number, to_json(view).dump());
    if (!won.ok() || !*won) {
      recovery_.reset();  // somebody else was faster; its start or the next tick decides
      return;
    }
    latest_ = view;
    recovery.committed = std::move(view);
  }
  bool all_dead = true;
  const bool patient = steady_clock::now() - recovery.began < kTimeToEnd;
  for (const int worker : recovery.to_fence) {
    const bool dead =
        patient && said_bye_.contains(worker) ? mesh_->ended(worker) : mesh_->fence(worker);
    all_dead = dead && all_dead;
  }
  if (all_dead) start_recovered();
}

void Coordinator::start_recovered() {
  const Recovery recovery = std::move(*recovery_);
  recovery_.reset();
  const View& view = *recovery.committed;
  board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
  // Link the block, so that whoever must recover next follows it.
  ViewBlock& before = last_begun_block();
  before.next_view.store(0, std::memory_order_release);
  before.next_first_step.store(view.first_step, std::memory_order_release);
  before.next_view.store(view.number, std::memory_order_release);
  const View left = current_;
  const nlohmann::json body = to_json(view);
  for (const int worker : recovery.audience) mesh_->send(worker, Message::kStart, body);
  started_by_message_ = view.number;
  begin_view(view);
  // Only now, because the survivors wait for the start and a disk may be slow.
  for (const int worker : recovery.to_fence) {
    const auto found = lost_reasons_.find(worker);
    options_.record({{"type", "lost"},
                     {"worker", worker},
                     {"view", view.number},
                     {"reason", found == lost_reasons_.end() ? "gone" : found->second}});
    if (const Member* member = recovery.latest.find(worker)) {
      remove_segment(member->address.segment);
    }
    if (const Member* member = left.find(worker)) remove_segment(member->address.segment);
  }
}

// From the view that runs here, along the announcements, to the last one that began.
ViewBlock& Coordinator::last_begun_block() const {
  ViewBlock* block = &board_->block(current_.number);
  for (;;) {
    const std::int64_t next = block->next_view;
    if (next == 0 || block->complete() < block->next_first_step - 1) return *block;
    ViewBlock& following = board_->block(next);
    if (following.view != next || following.members == 0) return *block;
    block = &following;
  }
}

}  // namespace rubato::elastic
