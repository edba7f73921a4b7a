// Failures: the survivors agree on the progress of the view and continue without the lost workers.
//
// Why it is safe: a frozen worker publishes nothing. Once every member of the views in question is
// frozen or excluded, the last complete step can no longer change for any survivor, and all of them
// obey the first step of the next view. An excluded worker may still write to the board until it is
// dead; the next view starts only after that. What it wrote is either a slice of a step that is
// repeated (and overwritten with the same bits) or something nobody reads.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "elastic/bridge_layout.h"
#include "elastic/coordinator.h"
#include "elastic/hosting.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

// For a worker that announced that it gives up: its launcher should see how it ended.
constexpr auto kGiveUpTime = std::chrono::milliseconds(500);
// The worker that should recover from a loss detects it, and begins, within this time.
constexpr auto kTimeToAct = std::chrono::milliseconds(300);

}  // namespace

// A lost worker without which the view that runs or starts here cannot continue; -1: none.
int Coordinator::lost_member() const {
  const auto lost_of = [&](const View& view) {
    const auto found = std::find_if(view.members.begin(), view.members.end(),
                                    [&](const Member& m) { return lost_.contains(m.address.id); });
    return found == view.members.end() ? -1 : found->address.id;
  };
  // Workers outside it are already excluded. Asking again would keep the view from ever beginning.
  if (pending_start_) return lost_of(pending_start_->view);
  if (active_number_ == 0 && latest_.find(id()) == nullptr) return -1;  // only an observer
  if (latest_.number <= current_.number) return lost_of(current_);
  // A planned change is in progress. A worker that leaves with it may end once its last step is
  // done, but not before: the others would wait for it forever.
  const ViewBlock& block = board_->block(current_.number);
  const Announcement next = block.announcement();
  for (std::size_t i = 0; i < current_.members.size(); ++i) {
    const int worker = current_.members[i].address.id;
    if (!lost_.contains(worker)) continue;
    if (latest_.find(worker) != nullptr) return worker;
    // On another node, its row may arrive after its message, through that node's gateway.
    const int gateway = gateway_of(current_, current_.members[i].address.node);
    const bool done =
        said_done_.contains(worker) && (!lost_.contains(gateway) || said_done_.contains(gateway));
    const std::int64_t reduced = block.rows[i].reduced.load(std::memory_order_acquire);
    if (next.view == 0 || (reduced < next.first_step - 1 && !done)) return worker;
  }
  return lost_of(latest_);
}

// The number of the view that starts or runs here.
std::int64_t Coordinator::view_here() const {
  return pending_start_ ? pending_start_->view.number : current_.number;
}

// The worker that should lead may not have lost that worker, so it does not know that this one has.
// The two cannot continue together: messages from a lost worker are never accepted again.
void Coordinator::tell_of_loss(int worker) {
  const auto now = steady_clock::now();
  if (worker < 0 || lost_since_ == steady_clock::time_point()) {
    lost_since_ = worker < 0 ? steady_clock::time_point() : now;
    return;
  }
  if (now - lost_since_ < kTimeToAct) return;
  lost_since_ = now;
  mesh_->send(lead_now(), Message::kBroken, {{"view", view_here()}, {"lost", worker}});
}

void Coordinator::on_broken(const nlohmann::json& body) {
  if (recovery_ || body.value("view", std::int64_t{0}) != view_here()) return;
  const int worker = body.value("lost", -1);
  if (worker < 0) {
    broken_view_ = current_.number;
    broken_why_ = body.value("reason", "");
    return;
  }
  const View& view = pending_start_ ? pending_start_->view : current_;
  if (worker == id() || view.find(worker) == nullptr || lost_.contains(worker)) return;
  mesh_->forget(worker);
  on_lost(worker, "another worker cannot reach it");
}

int Coordinator::lead_now() const {
  if (current_.find(current_.leader) != nullptr && !lost_.contains(current_.leader)) {
    return current_.leader;
  }
  int lowest = -1;
  for (const View* view : {&current_, &latest_}) {
    for (const Member& member : view->members) {
      const int worker = member.address.id;
      if (lost_.contains(worker)) continue;
      if (lowest < 0 || worker < lowest) lowest = worker;
    }
  }
  return lowest;
}

void Coordinator::on_freeze(int peer) {
  {
    const MutexLock lock(mutex_);
    frozen_ = true;
    interrupted_ = true;
    proposal_.reset();
  }
  change_.reset();
  // Data from other nodes must not reach this board any more either. A frozen view never continues.
  to_prepare_.reset();
  pending_start_.reset();
  feed_.reset();
  stop_bridges();
  if (board_) board_->pulse();
  if (peer != id()) mesh_->send(peer, Message::kFrozen, {{"complete", complete_here()}});
}

void Coordinator::recover() {
  Result<View> latest = newest_view(registry_);
  if (!latest.ok()) return;  // retried at the next tick
  latest_ = *latest;
  if (latest_.number > current_.number && latest_.find(id()) == nullptr) {
    leave("the others continued without this worker");
    return;
  }
  Recovery recovery;
  recovery.latest = latest_;
  recovery.began = steady_clock::now();
  // Everybody who may still publish: the members of all views since the one that runs here.
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
    // A worker that this one has never met, or has seen leave, will not answer.
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

// The newest complete step on this node's board; -1 if unknown.
std::int64_t Coordinator::complete_here() const {
  if (!board_) return -1;
  const ViewBlock& begun = board_->block(current_.number);
  if (begun.view != current_.number || begun.members == 0) return -1;
  const std::int64_t step = last_begun_block().complete();
  // A board that was fed may lack the gradient of its newest step, or be receiving a later step
  // that overwrites what the next step reads. Nobody could continue from there.
  const bool fed = gateway_of(current_, node()) < 0;
  return fed && board_->gradient_step(step) != step ? -1 : step;
}

void Coordinator::continue_recovery() {
  Recovery& recovery = *recovery_;
  // A worker lost meanwhile changes the question; start over.
  const bool another_lost = std::any_of(recovery.audience.begin(), recovery.audience.end(),
                                        [&](int worker) { return lost_.contains(worker); });
  if (another_lost) {
    recover();
    return;
  }
  if (!recovery.unfrozen.empty()) return;

  if (!recovery.committed) {
    View view{.number = recovery.latest.number + 1,
              .cause = "failure",
              .leader = id(),
              .board = board_->name(),
              .audits = recovery.latest.audits};
    std::vector<WorkerAddress> survivors;
    std::int64_t complete = -1;
    recovery.complete[id()] = complete_here();
    for (const Member& member : recovery.latest.members) {
      if (lost_.contains(member.address.id)) continue;
      survivors.push_back(member.address);
      // Nodes may differ by one step: those that lack it get it from one that has it.
      complete = std::max(complete, recovery.complete[member.address.id]);
    }
    view.first_step = complete + 1;
    // The step that was to be audited begins again.
    view.audit = recovery.latest.audit && view.first_step == recovery.latest.first_step;
    host_evenly(view, survivors);
    view.prepare_s = std::chrono::duration<double>(steady_clock::now() - recovery.began).count();
    const Result<bool> won = registry_.compare_and_swap(kViewRecord, recovery.latest.number,
                                                        compact_json(to_json(view)));
    if (!won.ok() || !*won) {
      recovery_.reset();  // somebody else was faster; its start or the next tick decides
      return;
    }
    latest_ = view;
    recovery.committed = std::move(view);
  }
  bool all_dead = true;
  const bool patient = steady_clock::now() - recovery.began < kGiveUpTime;
  for (const int worker : recovery.to_fence) {
    const bool dead =
        patient && said_bye_.contains(worker) ? mesh_->ended(worker) : mesh_->fence(worker);
    all_dead = dead && all_dead;
  }
  if (all_dead) start_recovered();
}

void Coordinator::start_recovered() {
  Recovery recovery = std::move(*recovery_);
  recovery_.reset();
  const View& view = *recovery.committed;
  std::string source;
  std::map<std::string, std::int64_t> complete;
  for (const Member& member : view.members) {
    const std::string& node = member.address.node;
    const std::int64_t step = recovery.complete[member.address.id];
    const auto [entry, fresh] = complete.try_emplace(node, step);
    if (!fresh) entry->second = std::max(entry->second, step);
    if (source.empty() && step == view.first_step - 1) source = node;
  }
  std::vector<std::string> lagging;
  for (const auto& [node, step] : complete) {
    if (step < view.first_step - 1) lagging.push_back(node);
  }
  if (complete[node()] == view.first_step - 1) open_block(view);
  const View left = current_;
  start_message_ = to_json(view);
  start_message_["source"] = source;
  start_message_["lagging"] = lagging;
  started_by_message_ = view;
  for (const int worker : recovery.audience) {
    mesh_->send(worker, Message::kStart, start_message_);
  }
  start_by_message(view, source, lagging);
  // Only now, because the survivors wait for the start and a disk may be slow.
  for (const int worker : recovery.to_fence) {
    const auto found = lost_reasons_.find(worker);
    options_.record({{"type", "lost"},
                     {"worker", worker},
                     {"view", view.number},
                     {"reason", found == lost_reasons_.end() ? "gone" : found->second}});
    for (const View* known : {&std::as_const(recovery.latest), &left}) {
      const Member* member = known->find(worker);
      if (member != nullptr && here(member->address)) remove_segment(member->address.segment);
    }
  }
}

// Follows the announcements from the view that runs here to the last one that has begun.
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
