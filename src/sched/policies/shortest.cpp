// Shortest remaining first, at the requested size, preemptive.
//
// Assumes that the remaining time of every job is known (an oracle in the simulator). Steps: order
// all jobs by remaining time (`srtf`) or by remaining time x devices (`srsf`, remaining service),
// admit each job that fits, and preempt the rest. O(jobs log jobs) per decision.
#include "sched/gang.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

class Shortest final : public Policy {
 public:
  Shortest(bool times_devices, PlacementRule placement)
      : times_devices_(times_devices), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    JobOrder order = by_key(input, [&](const JobState& job) {
      const Seconds left = job.remaining->seconds_at_request(input.now_s);
      return times_devices_ ? left * job.spec.requested_devices : left;
    });
    return grant_requested(input, std::move(order), WhenFull::kSkip, placement_);
  }

 private:
  bool times_devices_;
  PlacementRule placement_;
};

}  // namespace

PolicyInfo srtf_policy() {
  return {.name = "srtf",
          .summary = "shortest remaining time first, preemptive",
          .source = "textbook",
          .needs = {Knowledge::kRemainingWork},
          .params = {placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Shortest>(false, placement_rule(params));
          }};
}

PolicyInfo srsf_policy() {
  return {.name = "srsf",
          .summary = "shortest remaining service (time x devices) first, preemptive",
          .source = "Tiresias, NSDI'19 (baseline)",
          .needs = {Knowledge::kRemainingWork},
          .params = {placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Shortest>(true, placement_rule(params));
          }};
}

}  // namespace rubato
