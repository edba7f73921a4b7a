// Decisions. The policy decides beside the loop, on a copy of everything that it may look at
// (decision_task.h), one decision at a time. What comes back is applied by the rule of
// sched/question.h, so that the following holds however long a decision takes:
//
//   An applied plan never gives a device twice, never touches a job that has ended, and never
//   breaks a pin or a quota that was accepted before the plan was applied.
//
// A plan of which nothing can be applied is dropped and the policy is asked again at once. A
// decision has decide_within_s; policies that search or solve are told to end a little earlier, and
// return the best they have. After that time the decision is late, which is told once: its plan is
// never applied, and until it ends jobs keep their devices and waiting jobs start on free ones, by
// priority and arrival (sched/stopgap_policy.h).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "control/live_controller.h"

namespace rubato::control {

namespace {

// The pause between two rounds: at least kShortestPause, and kPausePerRound times the duration of
// the last round.
constexpr double kShortestPause = 0.05;
constexpr double kPausePerRound = 4;
// The share of its time after which a policy is told to end.
constexpr double kEndsAfter = 0.8;
// After so many dropped plans in a row, waiting jobs start without the policy.
constexpr int kMostDropped = 3;

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

bool LiveController::decide() {
  bool decided = asked_ && take_answer();
  if (rebuild_due_) return decided;
  if (asked_ && !asked_->late && since(asked_->at) >= options_.decide_within_s) {
    note_late();
    bridge();
    decided = true;
  }
  const double now = now_unix();
  const bool active = !scheduler_->jobs().empty();
  const bool due = (round_due_ || (active && now >= next_round_at_)) && now >= quiet_until_;
  if (!due) return decided;
  if (!asked_ && now >= ask_after_) {
    ask_policy();
  } else if (!asked_ || asked_->late) {
    bridge();
    decided = true;
  }
  return decided;
}

void LiveController::ask_policy() {
  // A job keeps its devices during its min_runtime, so its range depends on the time.
  for (const JobState* state : scheduler_->jobs()) {
    const JobRecord& job = store_->state().jobs.at(number_of(state->spec.id));
    if (job.phase == Phase::kRunning && job.document.min_runtime_s > 0) {
      static_cast<void>(scheduler_->refresh(job));
    }
  }
  forget_caps();
  if (rebuild_due_) return;
  round_due_ = false;
  next_round_at_ = now_unix() + options_.round_every_s;
  asked_ = Asked{.scheduler = schedulers_, .at = std::chrono::steady_clock::now()};
  decider_.start(scheduler_->ask(), kEndsAfter * options_.decide_within_s);
}

// True if a plan was applied.
bool LiveController::take_answer() {
  const std::unique_ptr<DecisionAnswer> answer = decider_.take();
  if (answer == nullptr) return false;
  const Asked asked = *std::exchange(asked_, std::nullopt);
  const double took = since(asked.at);
  const bool same = asked.scheduler == schedulers_;
  const bool stale = !same || rebuild_due_;
  if (same && (stale || asked.late)) scheduler_->give_up();
  {
    const WriteLock lock(mutex_);
    keep(metrics_.decision_s, took);
    if (stale && !asked.late) ++metrics_.stale_plans;
  }
  if (!stale && !asked.late) return accept(*answer);
  round_due_ = true;
  if (asked.late) {
    ask_after_ = now_unix() + kPausePerRound * took;
    fmt::print(stderr, "rubatod: the policy {} decided after {:.1f} s; its plan was dropped\n",
               scheduler_->policy_name(), took);
  }
  return false;
}

bool LiveController::accept(DecisionAnswer& answer) {
  std::vector<Action> actions;
  const Result<RoundRecord> record = scheduler_->accept(answer, actions);
  const double now = now_unix();
  if (!record.ok()) {
    fmt::print(stderr, "rubatod: {}\n", record.error().message);
    const WriteLock lock(mutex_);
    ++metrics_.invalid_plans;
    quiet_until_ = now + 1;
    return false;
  }
  told_late_ = false;
  {
    const WriteLock lock(mutex_);
    metrics_.stale_grants += record->left_out;
    if (record->dropped.empty()) {
      ++metrics_.rounds;
      keep(metrics_.round_algorithm_s, record->algorithm_s);
      keep(metrics_.round_solver_s, record->solver_s);
      keep(metrics_.round_total_s, record->total_s);
    } else {
      ++metrics_.stale_plans;
    }
  }
  if (record->left_out > 0) round_due_ = true;
  if (!record->dropped.empty()) {
    round_due_ = true;
    if (++dropped_ < kMostDropped) return false;  // asked again at once
    dropped_ = 0;
    quiet_until_ = now + kPausePerRound * record->total_s;
    bridge();
    round_due_ = true;
    return true;
  }
  dropped_ = 0;
  if (record->wake_at_s) next_round_at_ = std::min(next_round_at_, *record->wake_at_s);
  quiet_until_ = now + std::max(kShortestPause, kPausePerRound * record->total_s);
  carry_out(actions);
  note_who_waits();
  return true;
}

void LiveController::note_late() {
  asked_->late = true;
  decider_.hurry();
  {
    const WriteLock lock(mutex_);
    ++metrics_.late_decisions;
  }
  if (std::exchange(told_late_, true)) return;
  const std::string message = fmt::format(
      "the policy {} has not decided within {:g} s; until it has, jobs keep their devices and "
      "waiting ones start on free devices by priority and arrival",
      scheduler_->policy_name(), options_.decide_within_s);
  fmt::print(stderr, "rubatod: {}\n", message);
  static_cast<void>(append({event("warning", {{"message", message}})}));
}

void LiveController::bridge() {
  std::vector<Action> actions;
  const Result<RoundRecord> record = scheduler_->stopgap(actions);
  round_due_ = false;
  next_round_at_ = now_unix() + options_.round_every_s;
  quiet_until_ = std::max(quiet_until_, now_unix() + kShortestPause);
  if (!record.ok()) {
    fmt::print(stderr, "rubatod: {}\n", record.error().message);
    return;
  }
  carry_out(actions);
  note_who_waits();
}

}  // namespace rubato::control
