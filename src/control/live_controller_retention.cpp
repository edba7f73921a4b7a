// What has ended: jobs at rest leave the memory at once, folders and events go when the retention
// says so.
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "control/live_controller.h"

namespace rubato::control {

namespace {

// A portion takes a few milliseconds. While there is something to do, the loop does at most this
// many in a second; otherwise it looks once in a while.
constexpr double kPruneAgain = 0.05;
constexpr double kPruneEvery = 10;
constexpr int kPruneJobs = 25;
constexpr double kRemovalsEvery = 0.05;
constexpr double kRemovalsIdle = 5;
constexpr int kRemovals = 100;

}  // namespace

void LiveController::keep_house() {
  let_go_of_jobs();
  const double now = now_unix();
  if (now >= next_removals_at_) remove_folders();
  if (prune_failed_ || now < next_prune_at_) return;
  const Result<bool> more = store_->prune(options_.retention, now, kPruneJobs);
  next_prune_at_ = now + (more.ok() && *more ? kPruneAgain : kPruneEvery);
  if (more.ok() || more.error().code == ErrorCode::kIo) {
    next_removals_at_ = now;
    return;
  }
  prune_failed_ = true;
  const std::string message =
      fmt::format("old history is kept, because it does not fit together: {}; next: rubatod check",
                  more.error().message);
  fmt::print(stderr, "rubatod: {}\n", message);
  static_cast<void>(append({event("warning", {{"message", message}})}));
}

void LiveController::let_go_of_jobs() {
  std::vector<JobNumber> gone;
  for (const JobNumber job : store_->rested()) {
    if (scheduler_->find(job) == nullptr && executor_->forget(job)) gone.push_back(job);
  }
  for (const JobNumber job : gone) store_->let_go(job);
}

void LiveController::remove_folders() {
  for (const FolderRemover::Done& done : remover_.take_done()) {
    if (done.problem.empty()) {
      static_cast<void>(store_->removal_done(done.job));  // if not, it is found gone once more
      continue;
    }
    fmt::print(stderr, "rubatod: {}\n", done.problem);
    static_cast<void>(append({event("warning", {{"message", done.problem}})}));
  }
  const auto removals = store_->removals(removals_until_, kRemovals);
  if (removals.ok()) {
    for (const Removal& removal : *removals) remover_.add(removal);
    removals_until_ = std::ssize(*removals) == kRemovals ? removals->back().job : 0;
  }
  next_removals_at_ = now_unix() + (remover_.busy() ? kRemovalsEvery : kRemovalsIdle);
}

}  // namespace rubato::control
