// Elastic Tiresias (EDL, "Elastic Deep Learning in Multi-Tenant GPU Clusters"): Tiresias, and what
// it leaves idle or blocked is used by resizing jobs.
//
// Assumes profiled step times at the requested batch, which stays as it is; nothing about
// durations. Steps:
//  1. Tiresias: queues by attained service, walked in order, jobs at their requested size.
//  2. Compaction: when more than `compact_above` jobs would wait, jobs outside the first queue are
//     walked at their minimum instead, and those that then fit are admitted.
//  3. Expansion: what is left goes device by device to the job with the largest marginal gain
//     S(n+1) - S(n), S the speed relative to one device, until no gain is positive.
// The paper's resizes are stop-free, so it expands and takes back without a thought. Where a resize
// stops a job for c seconds (`resize_cost`, or the job's own), an expansion of a running job from n
// to m devices must earn that back: h (S(m) - S(n)) > c S(m), with the time h that the job has run
// so far as the guess of how long it will go on (of a heavy-tailed duration nothing better is
// known). For the same reason running jobs first keep the extra devices they hold, as far as these
// are left over, before anybody else is expanded. `resize_cost` = 0 is the paper's rule.
// O(jobs log jobs + devices log jobs) per decision, times the few passes in which expansions are
// taken back.
#include <algorithm>
#include <queue>

#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/service_queues.h"
#include "sched/speedup.h"

namespace rubato {

namespace {

struct ElasticOptions {
  int compact_above = 10;
  Seconds resize_cost_s = 30;
  PlacementRule placement = PlacementRule::kBestFit;
};

class ElasticTiresias final : public Policy {
 public:
  ElasticTiresias(QueueOptions queues, ElasticOptions options)
      : queues_(std::move(queues)), options_(options) {}

  Plan decide(const PolicyInput& input) override {
    speed_.forget(input.finished);
    queues_.update(input);
    const JobOrder order = queues_.order(input);
    Plan plan = grant_requested(input, order, WhenFull::kSkip, options_.placement);
    if (waiting(plan) > options_.compact_above) {
      plan = grant_sizes(input, order, compact_sizes(input), WhenFull::kSkip, options_.placement);
    }
    expand(input, plan);
    plan.wake_at_s = queues_.next_change(input, plan);
    return plan;
  }

 private:
  // A job that may get more devices than Tiresias gave it.
  struct Candidate {
    std::size_t job;
    DeviceTypeId type;
    int base;  // what Tiresias or compaction gave it
    int now;   // devices of this type that it holds
    int most;  // useful at its batch
    bool frozen = false;
  };
  struct Gain {
    double value;
    std::size_t candidate;
  };

  static int waiting(const Plan& plan) {
    return static_cast<int>(
        std::count_if(plan.grants.begin(), plan.grants.end(),
                      [](const Grant& grant) { return grant.devices.total() == 0; }));
  }

  std::vector<int> compact_sizes(const PolicyInput& input) const {
    std::vector<int> sizes;
    sizes.reserve(input.jobs.size());
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobSpec& spec = input.jobs[i]->spec;
      const bool shrinks = queues_.queue(i) > 0 && spec.mode != ElasticMode::kRigid;
      sizes.push_back(shrinks ? spec.min_devices : spec.requested_devices);
    }
    return sizes;
  }

  void expand(const PolicyInput& input, Plan& plan) {
    DeviceCounts left = input.usable_by_type;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < plan.grants.size(); ++i) {
      const DeviceTypeId type = plan.grants[i].devices.single_type();
      if (!type.valid()) continue;
      const int size = plan.grants[i].devices[type];
      left[type] -= size;
      const JobState& job = *input.jobs[i];
      const int most = most_devices_at_requested_batch(job.spec);
      if (most <= size) continue;
      candidates.push_back({i, type, size, job.allocation.counts(input.cluster)[type], most});
    }
    give(input, candidates, left, plan, true);
    // Expansions that do not earn their resize are taken back, and their devices offered again.
    for (bool taken_back = true; taken_back;) {
      taken_back = false;
      give(input, candidates, left, plan, false);
      for (Candidate& c : candidates) {
        int& size = plan.grants[c.job].devices[c.type];
        // A job that starts or grows anyway pays for it anyway.
        if (c.now < c.base || size <= c.now || worthwhile(input, c, size)) continue;
        left[c.type] += size - c.now;
        size = c.now;
        c.frozen = true;
        taken_back = true;
      }
    }
  }

  // Hands out what is left by marginal gain; with `only_held`, no job gets more than it holds now.
  void give(const PolicyInput& input, const std::vector<Candidate>& candidates, DeviceCounts& left,
            Plan& plan, bool only_held) {
    const auto lower = [](const Gain& a, const Gain& b) {
      return a.value != b.value ? a.value < b.value : a.candidate > b.candidate;
    };
    std::priority_queue<Gain, std::vector<Gain>, decltype(lower)> gains(lower);
    const auto push = [&](std::size_t index) {
      const Candidate& c = candidates[index];
      const int size = plan.grants[c.job].devices[c.type];
      if (c.frozen || size >= (only_held ? std::min(c.now, c.most) : c.most)) return;
      const JobState& job = *input.jobs[c.job];
      const double gain = speed_.speed(job, c.type, size + 1, input.cluster) -
                          speed_.speed(job, c.type, size, input.cluster);
      if (gain > 0) gains.push({gain, index});
    };
    for (std::size_t i = 0; i < candidates.size(); ++i) push(i);
    while (!gains.empty()) {
      const std::size_t index = gains.top().candidate;
      gains.pop();
      const Candidate& c = candidates[index];
      if (left[c.type] < 1) continue;
      ++plan.grants[c.job].devices[c.type];
      --left[c.type];
      push(index);
    }
  }

  bool worthwhile(const PolicyInput& input, const Candidate& c, int size) {
    const JobState& job = *input.jobs[c.job];
    const Seconds cost = job.spec.resize_cost_s.value_or(options_.resize_cost_s);
    const double before = speed_.speed(job, c.type, c.now, input.cluster);
    const double after = speed_.speed(job, c.type, size, input.cluster);
    return job.executed_s(input.now_s) * (after - before) > cost * after;
  }

  ServiceQueues queues_;
  ElasticOptions options_;
  RequestedBatchSpeed speed_;
};

}  // namespace

PolicyInfo elastic_tiresias_policy() {
  std::vector<ParamSpec> params = queue_params();
  params.push_back({.name = "compact_above",
                    .default_value = std::int64_t{10},
                    .low = 0,
                    .high = 1e6,
                    .help = "with more jobs waiting than this, jobs outside the first queue shrink "
                            "to their minimum"});
  params.push_back({.name = "resize_cost",
                    .default_value = 30.0,
                    .low = 0,
                    .high = 1e6,
                    .help = "seconds that an expansion of a running job must earn back; 0: none"});
  params.push_back(placement_param(PlacementRule::kBestFit));
  return {
      .name = "elastic-tiresias",
      .summary = "tiresias that shrinks jobs for a long queue and expands them into idle devices",
      .source = "EDL, Elastic Deep Learning in Multi-Tenant GPU Clusters, 2021",
      .needs = {Knowledge::kProfiledSpeed},
      .params = std::move(params),
      .make = [](const Params& given, Random) -> std::unique_ptr<Policy> {
        const ElasticOptions options{
            .compact_above = static_cast<int>(given.integer("compact_above")),
            .resize_cost_s = given.number("resize_cost"),
            .placement = placement_rule(given)};
        return std::make_unique<ElasticTiresias>(queue_options(given), options);
      }};
}

}  // namespace rubato
