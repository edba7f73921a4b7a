// Gittins index on attained service (the 2D-Gittins of Tiresias, NSDI'19), at the requested size,
// preemptive.
//
// Assumes that new jobs are like finished ones. For a job with service a and the services x of
// finished jobs:
//   index = P / E,  P = share of samples x > a with x <= a + D,  E = mean of min(x - a, D) over
//   samples x > a
// The index is the chance of finishing within the next D device-seconds, per device-second spent.
// The largest index goes first. Service is counted in whole quanta D, so that running jobs do not
// overtake each other all the time. Until `min_samples` jobs have finished, and beyond the longest
// finished job, the least attained service goes first. O(jobs log history + history) per decision.
#include <algorithm>
#include <cmath>
#include <deque>

#include "sched/gang.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

class Gittins final : public Policy {
 public:
  Gittins(double quantum, std::size_t history, std::size_t min_samples, PlacementRule placement)
      : quantum_(quantum), history_(history), min_samples_(min_samples), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    learn(input);
    JobOrder order = by_key(input, [&](const JobState& job) {
      return -index(std::floor(service(job, input.now_s) / quantum_ + 1e-9) * quantum_);
    });
    Plan plan = grant_requested(input, std::move(order), WhenFull::kSkip, placement_);
    plan.wake_at_s = next_quantum(input, plan);
    return plan;
  }

 private:
  static double service(const JobState& job, Seconds now_s) {
    return job.executed_s(now_s) * job.spec.requested_devices;
  }

  void learn(const PolicyInput& input) {
    if (input.finished.empty()) return;
    for (const FinishedJob& job : input.finished) recent_.push_back(job.attained_service);
    while (recent_.size() > history_) recent_.pop_front();
    sorted_.assign(recent_.begin(), recent_.end());
    std::sort(sorted_.begin(), sorted_.end());
    sums_.assign(1, 0.0);
    for (const double x : sorted_) sums_.push_back(sums_.back() + x);
  }

  // Positive if the samples say something about this job. Otherwise negative, and lower for more
  // service.
  double index(double attained) const {
    if (sorted_.size() < min_samples_) return -attained;
    const auto position = [&](double value) {
      return static_cast<std::size_t>(std::upper_bound(sorted_.begin(), sorted_.end(), value) -
                                      sorted_.begin());
    };
    const std::size_t first = position(attained);
    const std::size_t beyond = position(attained + quantum_);
    if (first == sorted_.size()) return -attained;
    const auto ending = static_cast<double>(beyond - first);
    const auto longer = static_cast<double>(sorted_.size() - beyond);
    const double spent = sums_[beyond] - sums_[first] - ending * attained + longer * quantum_;
    return ending / spent;
  }

  std::optional<Seconds> next_quantum(const PolicyInput& input, const Plan& plan) const {
    std::optional<Seconds> next;
    for (std::size_t i = 0; i < plan.grants.size(); ++i) {
      if (plan.grants[i].devices.total() == 0) continue;
      const JobState& job = *input.jobs[i];
      // The slack must not move this time: a job that ends on the boundary would lose its devices
      // just before its end.
      const double had = service(job, input.now_s);
      const double boundary = (std::floor(had / quantum_ + 1e-9) + 1) * quantum_;
      const Seconds at = input.now_s + (boundary - had) / job.spec.requested_devices;
      if (!next || at < *next) next = at;
    }
    return next;
  }

  double quantum_;
  std::size_t history_;
  std::size_t min_samples_;
  PlacementRule placement_;
  std::deque<double> recent_;
  std::vector<double> sorted_;
  std::vector<double> sums_;  // sums_[i]: sum of the i smallest samples
};

}  // namespace

PolicyInfo gittins_policy() {
  return {
      .name = "gittins",
      .summary = "jobs most likely to finish soon first, learned from finished jobs, preemptive",
      .source = "Tiresias (2D-Gittins), NSDI'19",
      .needs = {Knowledge::kNothing},
      .params = {{.name = "quantum",
                  .default_value = 3600.0,
                  .low = 1,
                  .high = 1e9,
                  .help = "device-seconds of service per look-ahead step"},
                 {.name = "history",
                  .default_value = std::int64_t{2000},
                  .low = 1,
                  .high = 1e6,
                  .help = "number of finished jobs to remember"},
                 {.name = "min_samples",
                  .default_value = std::int64_t{10},
                  .low = 1,
                  .high = 1e6,
                  .help = "number of finished jobs before the index is trusted"},
                 placement_param(PlacementRule::kBestFit)},
      .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
        return std::make_unique<Gittins>(
            params.number("quantum"), static_cast<std::size_t>(params.integer("history")),
            static_cast<std::size_t>(params.integer("min_samples")), placement_rule(params));
      }};
}

}  // namespace rubato
