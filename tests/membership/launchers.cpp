// The launchers of the nodes, as elastic/launch/launcher_loop.h and
// elastic/launch/launcher_workers.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "elastic/transport/bridge_layout.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

constexpr Micros kLauncherInterval = 100'000;

}  // namespace

void World::launch() {
  after(kLauncherInterval, -1, {LookAsLauncher{}});
  if (finished_) {
    // Newcomers that cannot reach the job do not learn that it has finished.
    if (now_ < finished_at_ + 3 * kFailureTimeout) return;
    for (const auto& process : processes_) {
      if (!process->was_member) process->kill();
    }
    return;
  }
  for (int node = 0; node < schedule_.nodes; ++node) {
    if (network_.registry_cut_until(node) <= now_) launch_on(node);
  }
}

// Commits the empty view if nobody is left who has the state of the job.
bool World::begin_again(const View& newest) {
  const bool anybody =
      std::any_of(newest.members.begin(), newest.members.end(), [&](const Member& member) {
        return processes_[static_cast<std::size_t>(member.address.id)]->alive();
      });
  if (anybody) return false;
  for (const auto& process : processes_) {
    if (process->node() == 0) process->kill();
  }
  View empty;
  empty.number = newest.number + 1;
  empty.first_step = newest.first_step;
  empty.cause = "restart";
  views_.push_back(std::make_shared<const View>(std::move(empty)));
  trace(fmt::format("view {}: nobody is left, the job restarts from step {}", views_.size(),
                    checkpoint_));
  return true;
}

void World::launch_on(int node) {
  Launcher& launcher = launchers_[static_cast<std::size_t>(node)];
  const std::string& name = names_[static_cast<std::size_t>(node)];
  static const View kNone;
  const ViewPtr newest = views_.empty() ? nullptr : views_.back();
  const View& view = newest ? *newest : kNone;
  int members = 0;
  int joining = 0;
  for (const auto& process : processes_) {
    if (!process->alive() || process->node() != node) continue;
    const bool in = view.find(process->id()) != nullptr;
    process->was_member = process->was_member || in;
    members += in ? 1 : 0;
    joining += process->was_member ? 0 : 1;
  }
  const bool listed = gateway_of(view, name) >= 0;
  const bool anew = view.empty() && view.number != launcher.last_empty;
  if (anew || (!listed && launcher.had_members)) {
    // Remaining processes of former members do not share memory with new workers.
    launcher.had_members = false;
    launcher.board = -1;
    if (view.empty()) launcher.last_empty = view.number;
  }
  launcher.had_members = launcher.had_members || members > 0;
  if (!view.empty() && members == 0) {
    if (node == 0 && begin_again(view)) return;
    if (listed) return;  // the survivors will exclude this node's dead workers
  }
  int wanted = std::min(target_->on_node(name, names_.front()), kLogical);
  for (const int worker : target_->migrate) {
    wanted +=
        view.find(worker) != nullptr && processes_[static_cast<std::size_t>(worker)]->node() == node
            ? 1
            : 0;
  }
  for (int missing = wanted - members - joining; missing > 0; --missing) {
    const auto id = static_cast<int>(processes_.size());
    if (launcher.board < 0) launcher.board = id;
    segments_.emplace_back();
    processes_.push_back(std::make_unique<Process>(*this, id, node, launcher.board));
    trace(fmt::format("worker {} is launched on node {}", id, name));
  }
}

}  // namespace rubato::elastic::membership::sim
