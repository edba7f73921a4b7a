// Whether running jobs make progress, and when jobs will end.
#include <algorithm>
#include <chrono>
#include <ctime>

#include "control/live_controller.h"

namespace rubato::control {

namespace {

constexpr double kHealthEvery = 0.5;

}  // namespace

void LiveController::watch_health() {
  const double now = now_unix();
  next_health_at_ = now + kHealthEvery;
  end_overdue(now);
  free_unused(now);
  check_progress(now);
  estimate_ends(now);
}

LiveController::TurnStart LiveController::turn_start() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return {.at = std::chrono::steady_clock::now(),
          .cpu_s = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9};
}

void LiveController::note_turn(const TurnStart& began) {
  const TurnStart now = turn_start();
  const double worked = std::chrono::duration<double>(now.at - began.at).count();
  const WriteLock lock(mutex_);
  ++metrics_.turns;
  keep(metrics_.turn_s, worked);
  metrics_.longest_turn_s = std::max(metrics_.longest_turn_s, worked);
  metrics_.longest_turn_cpu_s = std::max(metrics_.longest_turn_cpu_s, now.cpu_s - began.cpu_s);
}

void LiveController::check_progress(double now) {
  std::vector<Event> events;
  for (const auto& [number, watch] : watches_) {
    const auto found = store_->state().jobs.find(number);
    if (found == store_->state().jobs.end() || found->second.phase != Phase::kRunning) continue;
    const JobRecord& job = found->second;
    const std::optional<double> since = watch.stalled_since(now, options_.stall);
    if (since && job.stalled_since == 0 && does_steps(job)) {
      events.push_back(about(job, "stalled", {{"for_s", now - *since}, {"step", watch.step()}}));
    } else if (!since && job.stalled_since > 0 && watch.stepped()) {
      events.push_back(about(job, "recovered", {{"step", watch.step()}}));
    }
  }
  static_cast<void>(append(std::move(events)));  // tried again at the next look
}

void LiveController::estimate_ends(double now) {
  std::vector<EtaJob> running;
  std::vector<EtaJob> waiting;
  int free = live_cluster().devices() - reserved_now();
  const auto& jobs = store_->state().jobs;
  for (const JobState* state : scheduler_->jobs()) {
    const JobNumber number = number_of(state->spec.id);
    const JobRecord& job = jobs.at(number);
    const LiveJob* live = scheduler_->find(number);
    if (job.granted > 0) {
      free -= job.granted;
      const bool stalled = job.stalled_since > 0;
      running.push_back({.job = number,
                         .devices = job.granted,
                         .left_s = stalled ? std::nullopt : live->seconds_left(job.granted)});
      continue;
    }
    EtaJob& row = waiting.emplace_back();
    row.job = number;
    row.needs = live->spec().min_devices;
    row.left_s = live->seconds_left(row.needs);
    if (row.left_s) *row.left_s += live->start_cost();
  }
  std::sort(waiting.begin(), waiting.end(), [&](const EtaJob& a, const EtaJob& b) {
    const int urgency_a = jobs.at(a.job).document.priority;
    const int urgency_b = jobs.at(b.job).document.priority;
    return urgency_a != urgency_b ? urgency_a > urgency_b : a.job < b.job;
  });
  std::map<JobNumber, Eta> etas = control::estimate_ends(running, waiting, free, held_back());
  const WriteLock lock(mutex_);
  etas_ = std::move(etas);
  etas_at_ = now;
}

}  // namespace rubato::control
