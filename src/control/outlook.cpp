#include "control/outlook.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace rubato::control {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kNever = 1e12;
constexpr Seconds kAtOnce = 1e-3;

// Between two decisions of a policy that has an interval: so long that the time allowed is enough
// to see the end of jobs that take days, and short beside the times that people plan with.
Seconds interval_for(const Snapshot& snapshot) {
  constexpr double kDecisions = 200;
  constexpr Seconds kLongest = 300;
  const double work = workload_of(snapshot).device_s / std::max(1, snapshot.cluster.devices());
  return std::clamp(work / kDecisions, 1.0, kLongest);
}

// The first change of every job's devices in a forecast.
class FirstChanges {
 public:
  FirstChanges(const Snapshot& snapshot, const LiveScheduler& decided) {
    for (const SnapshotJob& job : snapshot.jobs) {
      const JobState* state = decided.state(job.record.number);
      devices_[job.record.number] = state == nullptr ? 0 : state->allocation.devices();
      if (state != nullptr) present_.insert(job.record.number);
    }
  }

  void see(const LiveWorkload& live, const Scheduler& scheduler) {
    std::set<JobNumber> present;
    std::vector<JobNumber> gains;
    std::vector<JobNumber> changed;
    known_left_ = false;
    for (const JobState* state : scheduler.jobs()) {
      const std::size_t index = state->spec.id.index();
      const JobNumber number = live.numbers[index];
      present.insert(number);
      known_left_ = known_left_ || !live.guessed[index];
      int& devices = devices_[number];
      const int now = state->allocation.devices();
      if (now == devices) continue;
      if (now > devices) gains.push_back(number);
      if (!changes_.contains(number)) {
        changes_[number] = {.when = {.at = state->resized_at_s}, .from = devices, .to = now};
        changed.push_back(number);
      }
      devices = now;
    }
    std::vector<JobNumber> ended;
    std::set_difference(present_.begin(), present_.end(), present.begin(), present.end(),
                        std::back_inserter(ended));
    for (const JobNumber number : changed) {
      NextChange& change = changes_[number];
      change.after = ended;
      if (change.to < change.from) change.gains = gains;
    }
    present_ = std::move(present);
  }

  // Whether a job of known length has not ended.
  bool known_left() const { return known_left_; }
  const NextChange* of(JobNumber job) const {
    const auto found = changes_.find(job);
    return found == changes_.end() ? nullptr : &found->second;
  }

 private:
  std::map<JobNumber, int> devices_;
  std::map<JobNumber, NextChange> changes_;
  std::set<JobNumber> present_;
  bool known_left_ = true;
};

struct Future {
  std::map<JobNumber, ForecastJob> jobs{};
  FirstChanges changes;
  Seconds first_guess_ends = std::numeric_limits<double>::infinity();
};

// What changes with the decision that is due.
std::map<JobNumber, NextChange> changes_now(const Snapshot& snapshot,
                                            const LiveScheduler& decided) {
  std::map<JobNumber, NextChange> changes;
  std::vector<JobNumber> gains;
  for (const SnapshotJob& job : snapshot.jobs) {
    const JobState* state = decided.state(job.record.number);
    const int to = state == nullptr ? 0 : state->allocation.devices();
    const int from = job.record.granted;
    if (to == from) continue;
    if (to > from) gains.push_back(job.record.number);
    changes[job.record.number] = {
        .when = {.at = 0, .earliest = 0, .latest = 0}, .from = from, .to = to};
  }
  for (auto& [number, change] : changes) {
    if (change.to < change.from) change.gains = gains;
  }
  return changes;
}

std::optional<Seconds> smallest(std::initializer_list<std::optional<Seconds>> values) {
  std::optional<Seconds> best;
  for (const auto& value : values) {
    if (value && (!best || *value < *best)) best = value;
  }
  return best;
}

std::optional<Seconds> largest(std::initializer_list<std::optional<Seconds>> values) {
  std::optional<Seconds> best;
  for (const auto& value : values) {
    if (value && (!best || *value > *best)) best = value;
  }
  return best;
}

struct Futures {
  const Future& expected;
  const Future& early;
  const Future& late;
};

// Of a job whose own length and speed are known.
Expected end_of(JobNumber job, const Futures& futures, bool has_spread) {
  const auto end_in = [&](const Future& future) {
    const auto found = future.jobs.find(job);
    return found == future.jobs.end() ? std::optional<Seconds>() : found->second.finish_s;
  };
  const auto ends = {end_in(futures.early), end_in(futures.expected), end_in(futures.late)};
  const bool bounded = end_in(futures.late).has_value();
  Expected end;
  if (bounded) end.at = end_in(futures.expected);
  if (has_spread) end.earliest = smallest(ends);
  if (has_spread && bounded) end.latest = largest(ends);
  return end;
}

// The same change for the same cause. A policy may make it for another one, if jobs whose end was
// expected go on.
bool is_same(const NextChange& a, const NextChange& b) {
  if (a.to != b.to || a.after.empty() != b.after.empty()) return false;
  return a.after.empty() || std::find_first_of(a.after.begin(), a.after.end(), b.after.begin(),
                                               b.after.end()) != a.after.end();
}

// After the decision that is due.
std::optional<NextChange> change_of(JobNumber job, const Futures& futures) {
  const NextChange* found = futures.expected.changes.of(job);
  if (found == nullptr) return std::nullopt;
  NextChange change = *found;
  const auto same_in = [&](const Future& future) {
    const NextChange* other = future.changes.of(job);
    return other != nullptr && is_same(*other, change) ? other->when.at : std::optional<Seconds>();
  };
  const std::optional<Seconds> at = change.when.at;
  if (same_in(futures.early)) change.when.earliest = smallest({same_in(futures.early), at});
  if (same_in(futures.late)) change.when.latest = largest({same_in(futures.late), at});
  const bool assumed = futures.expected.first_guess_ends <= *at;
  if (assumed && !change.when.latest) change.when.at.reset();
  return change;
}

}  // namespace

Result<Outlook> outlook_of(const Snapshot& snapshot, const std::map<JobNumber, StepSpread>& spreads,
                           const OutlookLimits& limits) {
  Outlook outlook{.at = snapshot.at};
  Snapshot known = snapshot;
  for (SnapshotJob& job : known.jobs) {
    if (job.record.stalled_since > 0) job.profile = Profile();  // nobody knows when it goes on
  }
  auto scheduler = scheduler_of(known);
  if (!scheduler.ok()) return scheduler.error();
  const LiveScheduler& decided = **scheduler;
  std::vector<Action> actions;
  const Result<RoundRecord> round = (*scheduler)->round(actions);
  if (!round.ok()) return round.error();

  Assumptions early{.unknown_s = kAtOnce};
  Assumptions late{.unknown_s = kNever};
  for (const auto& [number, spread] : spreads) {
    early.slower[number] = spread.low;
    late.slower[number] = spread.high;
  }
  const Seconds interval_s = interval_for(known);
  const auto see = [&](const Assumptions& assumptions) -> Result<Future> {
    Future future{.changes = FirstChanges(known, decided)};
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits.seconds / 3));
    ForecastOptions options;
    options.decided = &decided;
    if (round->wake_at_s) options.decides_again_s = *round->wake_at_s - known.at;
    options.interval_s = interval_s;
    options.assumptions = assumptions;
    options.on_round = [&](const LiveWorkload& live, const Scheduler& now) {
      future.changes.see(live, now);
    };
    options.should_stop = [&] {
      // Where some jobs never end, the others are waited for.
      const bool over = assumptions.unknown_s == kNever && !future.changes.known_left();
      return over || Clock::now() >= deadline || (limits.should_stop && limits.should_stop());
    };
    const Result<Forecast> next =
        forecast(known, known.policy.name, known.policy.settings, options);
    if (!next.ok()) return next.error();
    for (const ForecastJob& job : next->jobs) {
      future.jobs[job.job] = job;
      if (!job.guessed || !job.finish_s) continue;
      future.first_guess_ends = std::min(future.first_guess_ends, *job.finish_s);
    }
    return future;
  };
  const Result<Future> expected = see({});
  if (!expected.ok()) return expected.error();
  const Result<Future> soonest = see(early);
  if (!soonest.ok()) return soonest.error();
  const Result<Future> slowest = see(late);
  if (!slowest.ok()) return slowest.error();

  const Futures futures{.expected = *expected, .early = *soonest, .late = *slowest};
  const std::map<JobNumber, NextChange> now = changes_now(known, decided);
  for (const auto& [number, job] : expected->jobs) {
    JobOutlook& row = outlook.jobs[number];
    if (!job.guessed) row.end = end_of(number, futures, spreads.contains(number));
    if (const auto change = now.find(number); change != now.end()) {
      row.change = change->second;
    } else {
      row.change = change_of(number, futures);
      row.keeps = !row.change && row.end.at.has_value();
    }
  }
  return outlook;
}

}  // namespace rubato::control
