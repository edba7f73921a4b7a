// Optimus (EuroSys'18) in its all-reduce form: devices go where they save most time.
//
// Assumes profiled step times and the remaining updates of every job (an oracle in the simulator:
// "Optimus+Oracle"). Steps: every job gets its smallest size, in order of arrival, while devices
// last. Then one device at a time goes to the job with the largest (t_update(n) - t_update(n+1)) x
// remaining updates, until no gain is positive. The batch stays as requested. A job keeps its nodes
// unless its size changes. O((jobs + devices) log jobs) per decision.
#include <algorithm>
#include <numeric>
#include <queue>

#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/speedup.h"

namespace rubato {

namespace {

class Optimus final : public Policy {
 public:
  explicit Optimus(PlacementRule placement) : placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    speed_.forget(input.finished);
    Plan plan = empty_plan(input);
    plan.placement = placement_;
    DeviceCounts left = input.usable_by_type;

    const auto lower_gain = [](const Gain& a, const Gain& b) {
      return a.value != b.value ? a.value < b.value : a.job > b.job;
    };
    std::priority_queue<Gain, std::vector<Gain>, decltype(lower_gain)> gains(lower_gain);
    std::vector<double> remaining(input.jobs.size(), 0.0);
    const auto push_gain = [&](std::size_t i, DeviceTypeId type) {
      const JobState& job = *input.jobs[i];
      const int size = plan.grants[i].devices[type];
      if (size + 1 > most_devices_at_requested_batch(job.spec) || left[type] < 1) return;
      const double saved = speed_.update_s(job, type, size, input.cluster) -
                           speed_.update_s(job, type, size + 1, input.cluster);
      const double gain = saved * remaining[i];
      if (gain > 0) gains.push({gain, i, type});
    };

    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const JobState& job = *input.jobs[i];
      const int smallest =
          job.spec.mode == ElasticMode::kRigid ? job.spec.requested_devices : job.spec.min_devices;
      const DeviceTypeId type = type_with_room(job, smallest, left, input.cluster);
      if (!type.valid()) continue;
      plan.grants[i].devices[type] = smallest;
      plan.grants[i].batch = job.spec.requested_batch;
      left[type] -= smallest;
      remaining[i] = job.remaining->updates(job.spec.requested_batch, input.now_s);
      push_gain(i, type);
    }
    while (!gains.empty()) {
      const Gain best = gains.top();
      gains.pop();
      if (left[best.type] < 1) continue;
      plan.grants[best.job].devices[best.type] += 1;
      left[best.type] -= 1;
      push_gain(best.job, best.type);
    }

    plan.placement_order.resize(plan.grants.size());
    std::iota(plan.placement_order.begin(), plan.placement_order.end(), std::size_t{0});
    std::stable_sort(plan.placement_order.begin(), plan.placement_order.end(),
                     [&](std::size_t a, std::size_t b) {
                       return plan.grants[a].devices.total() < plan.grants[b].devices.total();
                     });
    return plan;
  }

 private:
  struct Gain {
    double value;
    std::size_t job;
    DeviceTypeId type;
  };

  PlacementRule placement_;
  RequestedBatchSpeed speed_;
};

}  // namespace

PolicyInfo optimus_policy() {
  return {
      .name = "optimus",
      .summary = "one device per job, then one at a time where it saves the most remaining time",
      .source = "Optimus, EuroSys'18",
      .needs = {Knowledge::kProfiledSpeed, Knowledge::kRemainingWork},
      .params = {placement_param(PlacementRule::kMostFree)},
      .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
        return std::make_unique<Optimus>(placement_rule(params));
      }};
}

}  // namespace rubato
