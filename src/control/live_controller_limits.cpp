// Limits that the owners of jobs set.
#include <fmt/format.h>

#include "control/live_controller.h"

namespace rubato::control {

// How long a job has held devices follows from its events, so a restarted daemon knows it, too. The
// job is stopped like a cancelled one: in an orderly way.
void LiveController::end_overdue(double now) {
  std::vector<JobNumber> overdue;
  const double clock = time_.steady();
  for (const JobState* state : scheduler_->jobs()) {
    const JobRecord& job = store_->state().jobs.at(number_of(state->spec.id));
    const double limit = job.document.time_limit_s;
    if (limit > 0 && held_seconds(job, now, clock) >= limit) overdue.push_back(job.number);
  }
  for (const JobNumber number : overdue) {
    const JobRecord& job = store_->state().jobs.at(number);
    const std::string message = fmt::format(
        "its time limit is over: it held devices for {:.0f} s, and time_limit is {:.0f} s{}",
        held_seconds(job, now, clock), job.document.time_limit_s,
        job.document.program == elastic::ProgramKind::kOpaque ? ""
                                                              : "; its last checkpoint is kept");
    if (!append({about(job, "failed", {{"message", message}})}).ok()) return;  // tried again
    scheduler_->remove(number);
    executor_->cancel(number);
    const WriteLock lock(mutex_);
    live_.erase(number);
    ++metrics_.ended_by_phase[std::string(to_string(Phase::kFailed))];
    round_due_ = true;
  }
}

// A command without a mode runs as one process on one device until it calls the runtime. While it
// does not, further devices would be idle.
void LiveController::free_unused(double now) {
  constexpr double kSilence = 30;  // a program that loads large libraries calls later than others
  std::erase_if(silent_, [&](JobNumber job) { return scheduler_->find(job) == nullptr; });
  std::vector<Event> events;
  for (const JobState* state : scheduler_->jobs()) {
    const JobRecord& job = store_->state().jobs.at(number_of(state->spec.id));
    if (job.document.program != elastic::ProgramKind::kUnknown || job.granted == 0) continue;
    if (job.scale > 0) continue;  // its owner wants so many
    const int least = state->spec.min_devices;
    const bool capped = job.max_useful > 0 && job.max_useful <= least;
    if (!capped && (job.held <= least || now - job.held_at < kSilence)) continue;
    const bool silent = !does_steps(job);
    if (silent && !capped) {
      events.push_back(about(job, "capped", {{"max_useful", least}, {"cause", "silent"}}));
      silent_.insert(job.number);
    } else if (!silent && silent_.erase(job.number) > 0) {
      events.push_back(about(job, "capped", {{"max_useful", 0}}));
    }
  }
  const std::vector<Event> changes = events;
  if (events.empty() || !append(std::move(events)).ok()) return;
  for (const Event& change : changes) {
    static_cast<void>(scheduler_->refresh(store_->state().jobs.at(change.job)));
  }
  round_due_ = true;
}

// A program that is not known to use the runtime may have nothing to report for days.
bool LiveController::does_steps(const JobRecord& job) const {
  switch (job.document.program) {
    case elastic::ProgramKind::kRuntime:
      return true;
    case elastic::ProgramKind::kUnknown:
      return executor_->has_called_runtime(job.number);
    case elastic::ProgramKind::kOpaque:
      break;
  }
  return false;
}

}  // namespace rubato::control
