// Tiresias (NSDI'19): least attained service in a few queues, at the requested size, preemptive.
//
// Assumes nothing about durations. A job enters the first queue; when its service (executed seconds
// x requested devices) reaches a queue's threshold it moves to the end of the next one. Queues are
// walked from the first to the last, each in order of entry; a job that fits is admitted, the rest
// is preempted. With `promote` > 0 a job that has waited that many times its executed time starts
// again in the first queue. The defaults (one threshold of 57,600 device-seconds, no promotion,
// emptiest node first) are those of the Pollux artifact. O(jobs log jobs) per decision.
#include <algorithm>

#include "sched/gang.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

class Tiresias final : public Policy {
 public:
  Tiresias(std::vector<double> thresholds, double promote, PlacementRule placement)
      : thresholds_(std::move(thresholds)), promote_(promote), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    update_entries(input);
    JobOrder order(entries_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const int urgency = input.jobs[b]->spec.priority - input.jobs[a]->spec.priority;
      if (urgency != 0) return urgency < 0;
      if (entries_[a].queue != entries_[b].queue) return entries_[a].queue < entries_[b].queue;
      return entries_[a].ticket < entries_[b].ticket;
    });
    Plan plan = grant_requested(input, std::move(order), WhenFull::kSkip, placement_);
    plan.wake_at_s = next_change(input, plan);
    return plan;
  }

 private:
  struct Entry {
    JobId job;
    int queue = 0;
    long ticket = 0;              // order of entry into the queue
    Seconds executed_before = 0;  // executed time forgiven by promotions
    Seconds waited_from = 0;      // end of the last time it ran
  };

  double service(const Entry& entry, const JobState& job, Seconds now_s) const {
    return (job.executed_s(now_s) - entry.executed_before) * job.spec.requested_devices;
  }

  // Brings entries_ in line with the input (both are in order of arrival) and moves jobs between
  // queues.
  void update_entries(const PolicyInput& input) {
    constexpr double kSlack = 1e-6;
    std::size_t kept = 0;
    for (std::size_t i = 0, old = 0; i < input.jobs.size(); ++i) {
      const JobId id = input.jobs[i]->spec.id;
      while (old < entries_.size() && entries_[old].job != id) ++old;
      if (old < entries_.size()) {
        entries_[kept++] = entries_[old++];
      } else {
        entries_.resize(std::max(entries_.size(), kept + 1));
        entries_[kept++] = {.job = id, .ticket = next_ticket_++, .waited_from = input.now_s};
        old = entries_.size();
      }
    }
    entries_.resize(kept);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      const JobState& job = *input.jobs[i];
      if (job.running()) {
        entry.waited_from = input.now_s;
        while (static_cast<std::size_t>(entry.queue) < thresholds_.size() &&
               service(entry, job, input.now_s) + kSlack >=
                   thresholds_[static_cast<std::size_t>(entry.queue)]) {
          ++entry.queue;
          entry.ticket = next_ticket_++;
        }
      } else if (promote_ > 0 && entry.queue > 0 &&
                 input.now_s - entry.waited_from + kSlack >=
                     promote_ * unforgiven(entry, job, input)) {
        entry.executed_before = job.executed_s(input.now_s);
        entry.queue = 0;
        entry.ticket = next_ticket_++;
      }
    }
  }

  static Seconds unforgiven(const Entry& entry, const JobState& job, const PolicyInput& input) {
    return job.executed_s(input.now_s) - entry.executed_before;
  }

  // When a running job will reach its threshold, or a waiting one its promotion.
  std::optional<Seconds> next_change(const PolicyInput& input, const Plan& plan) const {
    std::optional<Seconds> next;
    const auto consider = [&](Seconds at) {
      if (!next || at < *next) next = at;
    };
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      const JobState& job = *input.jobs[i];
      const bool will_run = plan.grants[i].devices.total() > 0;
      if (will_run && static_cast<std::size_t>(entry.queue) < thresholds_.size()) {
        const double left =
            thresholds_[static_cast<std::size_t>(entry.queue)] - service(entry, job, input.now_s);
        consider(input.now_s + left / job.spec.requested_devices);
      } else if (!will_run && promote_ > 0 && entry.queue > 0) {
        consider(entry.waited_from + promote_ * unforgiven(entry, job, input));
      }
    }
    return next;
  }

  std::vector<double> thresholds_;
  double promote_;
  PlacementRule placement_;
  std::vector<Entry> entries_;  // parallel to the input's jobs
  long next_ticket_ = 0;
};

}  // namespace

PolicyInfo tiresias_policy() {
  return {
      .name = "tiresias",
      .summary = "least attained service in queues, preemptive, no knowledge of durations",
      .source = "Tiresias, NSDI'19",
      .needs = {Knowledge::kNothing},
      .params = {{.name = "threshold",
                  .default_value = 57'600.0,
                  .low = 1,
                  .high = 1e9,
                  .help = "device-seconds of service after which a job leaves the first queue"},
                 {.name = "threshold2",
                  .default_value = 0.0,
                  .low = 0,
                  .high = 1e9,
                  .help = "device-seconds after which it leaves the second queue; 0: two queues"},
                 {.name = "promote",
                  .default_value = 0.0,
                  .low = 0,
                  .high = 1e6,
                  .help = "back to the first queue after waiting this many times the executed "
                          "time; 0: never"},
                 placement_param(PlacementRule::kMostFree)},
      .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
        std::vector<double> thresholds{params.number("threshold")};
        const double second = params.number("threshold2");
        if (second > thresholds[0]) thresholds.push_back(second);
        return std::make_unique<Tiresias>(std::move(thresholds), params.number("promote"),
                                          placement_rule(params));
      }};
}

}  // namespace rubato
