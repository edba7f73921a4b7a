// Elastic DP (Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", 2020), and the
// baseline it was compared with.
//
// Assumes profiled step times (a one-device run at a few batches and the cluster's communication
// latency are enough, see model/jsa.h) and that a sample is worth the same in every batch the job
// allows. Steps:
//  1. Analyzer: S(b, k), the speed on k devices with total batch b relative to one device, and the
//     best batch b_opt(k) for every k (sched/scalability.h).
//  2. Admission: running jobs first, then the others by priority and arrival, as long as the
//     smallest sizes k_min = ceil(b_min / largest micro-batch) of all admitted jobs fit.
//     admission=drop turns away every job that does not fit when it is considered.
//     admission=queue keeps it, and no younger job overtakes it on the device types it could use.
//  3. Optimizer: the device counts that maximise the sum of S_j(b_opt_j(k_j), k_j), exactly
//     (solve/allocate.h). Devices that would slow jobs down stay idle. Ties keep a job's size.
//  4. Jobs whose devices or batch changed are resized.
// On a mixed cluster each job belongs to one type. A running job stays; a new one goes where an
// equal share of the type's devices is worth most to it. The optimizer runs type by type.
// If `interval` > 0, the policy acts only that often, as the published autoscaler does. In between,
// nothing is admitted or resized.
//
// fixed-batch is the same autoscaler and optimizer with one batch per job, independent of the
// device count: the smallest, the largest or a random batch that the job allows. That batch also
// limits the devices: at least as many as hold it, at most as many as it keeps busy.
//
// Both: O(jobs x devices x k_max) per decision, in the optimizer.
#include <algorithm>
#include <cmath>

#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/scalability.h"
#include "solve/allocate.h"

namespace rubato {

namespace {

enum class BatchRule { kElastic, kSmallest, kLargest, kRandom };

struct AutoscalerOptions {
  BatchRule batch = BatchRule::kElastic;
  bool drop = false;
  Seconds interval_s = 0;
  PlacementRule placement = PlacementRule::kBestFit;
};

class Autoscaler final : public Policy {
 public:
  Autoscaler(const AutoscalerOptions& options, Random random)
      : options_(options), seed_(random.next()) {}

  Plan decide(const PolicyInput& input) override {
    analyzer_.forget(input.finished);
    Plan plan = empty_plan(input);
    plan.placement = options_.placement;
    if (options_.interval_s > 0) {
      if (input.now_s + kSlack < next_s_) return keep(input, std::move(plan));
      next_s_ =
          (std::floor((input.now_s + kSlack) / options_.interval_s) + 1) * options_.interval_s;
      plan.wake_at_s = next_s_;
    }
    const std::vector<Member> admitted = admit(input, plan);
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      optimize(input, DeviceTypeId(i), admitted, plan);
    }
    return plan;
  }

 private:
  static constexpr Seconds kSlack = 1e-6;

  // An admitted job on the type it belongs to.
  struct Member {
    std::size_t job;
    DeviceTypeId type;
    const Scalability* table;
  };

  // All jobs keep what they have until the next interval.
  Plan keep(const PolicyInput& input, Plan plan) const {
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const Allocation& current = input.jobs[i]->allocation;
      plan.grants[i].devices = current.counts(input.cluster);
      plan.grants[i].batch = current.batch;
    }
    plan.wake_at_s = next_s_;
    return plan;
  }

  BatchRange batches(const JobSpec& spec) const {
    const BatchRange all = allowed_batches(spec);
    switch (options_.batch) {
      case BatchRule::kElastic:
        return all;
      case BatchRule::kSmallest:
        return {all.low, all.low};
      case BatchRule::kLargest:
        return {all.high, all.high};
      case BatchRule::kRandom: {
        // A job always gets the same batch, independent of other jobs and of when it is asked.
        Random random(seed_ + static_cast<std::uint64_t>(spec.id.value));
        const std::int64_t drawn =
            all.low + static_cast<std::int64_t>(random.uniform() *
                                                static_cast<double>(all.high - all.low + 1));
        return {drawn, drawn};
      }
    }
    return all;
  }

  const Scalability& table(const JobState& job, DeviceTypeId type, const Cluster& cluster) {
    return analyzer_.of(job, type, cluster.capacity()[type], batches(job.spec), cluster);
  }

  // Chooses the jobs that take part. The others wait or are turned away.
  std::vector<Member> admit(const PolicyInput& input, Plan& plan) {
    std::vector<Member> admitted;
    DeviceCounts left = input.usable_by_type;  // after the smallest sizes of all admitted jobs
    DeviceCounts members;
    std::uint32_t closed = 0;  // types on which an older job waits
    for (const std::size_t i : running_first(input, by_priority_then_arrival(input))) {
      const JobState& job = *input.jobs[i];
      const DeviceTypeId type = choose_type(job, input, left, members, closed);
      if (type.valid()) {
        const Scalability& sizes = table(job, type, input.cluster);
        left[type] -= sizes.sizes.low;
        ++members[type];
        admitted.push_back({i, type, &sizes});
        continue;
      }
      Grant& grant = plan.grants[i];
      grant.waiting =
          (job.spec.allowed_types & closed) != 0 ? Reason::kWaitsBehind : Reason::kWaitsForDevices;
      if (options_.drop && job.starts == 0) {
        grant.rejected = true;
        analyzer_.forget(job.spec.id);
      } else {
        closed |= job.spec.allowed_types;
      }
    }
    return admitted;
  }

  DeviceTypeId choose_type(const JobState& job, const PolicyInput& input, const DeviceCounts& left,
                           const DeviceCounts& members, std::uint32_t closed) {
    const auto fits = [&](DeviceTypeId type) {
      const Scalability& sizes = table(job, type, input.cluster);
      return sizes.possible() && sizes.sizes.low <= left[type];
    };
    if (job.running()) {
      const DeviceTypeId current = input.cluster.node(job.allocation.shares.front().node).type;
      if (fits(current)) return current;
    }
    DeviceTypeId best;
    double most = 0;
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      const DeviceTypeId type(i);
      if (!job.spec.allows(type) || (closed >> i & 1U) != 0 || !fits(type)) continue;
      const Scalability& sizes = table(job, type, input.cluster);
      const int share = std::clamp(input.usable_by_type[type] / (members[type] + 1),
                                   sizes.sizes.low, sizes.sizes.high);
      const double worth = sizes.on(share).speedup;
      if (worth > most) {
        most = worth;
        best = type;
      }
    }
    return best;
  }

  static void optimize(const PolicyInput& input, DeviceTypeId type,
                       const std::vector<Member>& admitted, Plan& plan) {
    // Large enough to break ties, too small to change anything else.
    constexpr double kPreferCurrent = 1 + 1e-9;
    std::vector<std::vector<Choice>> tables;
    std::vector<const Member*> members;
    for (const Member& member : admitted) {
      if (member.type != type) continue;
      const Scalability& sizes = *member.table;
      const int now = input.jobs[member.job]->allocation.counts(input.cluster)[type];
      std::vector<Choice> choices;
      const int largest = std::min(sizes.sizes.high, input.usable_by_type[type]);
      for (int devices = sizes.sizes.low; devices <= largest; ++devices) {
        const double value = sizes.on(devices).speedup * (devices == now ? kPreferCurrent : 1.0);
        // More devices for less speed are never part of an optimal division.
        if (!choices.empty() && value <= choices.back().value) continue;
        choices.push_back({devices, value});
      }
      tables.push_back(std::move(choices));
      members.push_back(&member);
    }
    if (members.empty()) return;
    const Division division = allocate(tables, input.usable_by_type[type]);
    if (!division.feasible) return;  // cannot happen: the smallest sizes fit
    for (std::size_t m = 0; m < members.size(); ++m) {
      const int devices = tables[m][static_cast<std::size_t>(division.choice[m])].size;
      Grant& grant = plan.grants[members[m]->job];
      grant.devices[type] = devices;
      grant.batch = members[m]->table->on(devices).batch;
    }
  }

  AutoscalerOptions options_;
  std::uint64_t seed_;
  Seconds next_s_ = 0;
  ScalabilityAnalyzer analyzer_;
};

std::vector<ParamSpec> autoscaler_params() {
  return {{.name = "admission",
           .default_value = std::string("queue"),
           .choices = {"queue", "drop"},
           .help = "what happens to a job if there is no room for its smallest size: it waits in "
                   "the queue, or it is turned away"},
          {.name = "interval",
           .default_value = 0.0,
           .low = 0,
           .high = 1e6,
           .help = "seconds between admissions and resizes; 0: at every event"},
          placement_param(PlacementRule::kBestFit)};
}

AutoscalerOptions autoscaler_options(const Params& params, BatchRule batch) {
  return {.batch = batch,
          .drop = params.choice("admission") == "drop",
          .interval_s = params.number("interval"),
          .placement = placement_rule(params)};
}

}  // namespace

PolicyInfo elastic_dp_policy() {
  return {.name = "elastic-dp",
          .summary = "device counts and batches that maximise the sum of all speedups",
          .source = "Effective Elastic Scaling of Deep Learning Workloads, 2020",
          .needs = {Knowledge::kProfiledSpeed},
          .params = autoscaler_params(),
          .make = [](const Params& params, Random random) -> std::unique_ptr<Policy> {
            return std::make_unique<Autoscaler>(autoscaler_options(params, BatchRule::kElastic),
                                                random);
          }};
}

PolicyInfo fixed_batch_policy() {
  std::vector<ParamSpec> params = autoscaler_params();
  params.insert(params.begin(), {.name = "batch",
                                 .default_value = std::string("min"),
                                 .choices = {"min", "max", "random"},
                                 .help = "which of a job's allowed batches is used"});
  return {.name = "fixed-batch",
          .summary = "elastic-dp with one batch per job, independent of its devices",
          .source = "baseline of Effective Elastic Scaling of Deep Learning Workloads, 2020",
          .needs = {Knowledge::kProfiledSpeed},
          .params = std::move(params),
          .make = [](const Params& given, Random random) -> std::unique_ptr<Policy> {
            const std::string& batch = given.choice("batch");
            const BatchRule rule = batch == "min"   ? BatchRule::kSmallest
                                   : batch == "max" ? BatchRule::kLargest
                                                    : BatchRule::kRandom;
            return std::make_unique<Autoscaler>(autoscaler_options(given, rule), random);
          }};
}

}  // namespace rubato
