// Tiresias (NSDI'19): least attained service in a few queues, at the requested size, preemptive.
//
// Assumes nothing about durations. A job enters the first queue. When its service (executed seconds
// x requested devices) reaches a queue's threshold, it moves to the end of the next queue. Queues
// are served from first to last, each in order of entry. A job that fits is admitted; the rest is
// preempted. If `promote` > 0, a job that has waited that many times its executed time returns to
// the first queue. The defaults (one threshold of 57,600 device-seconds, no promotion, emptiest
// node first) are those of the Pollux artifact. O(jobs log jobs) per decision.
#include "sched/gang.h"
#include "sched/policies/policies.h"
#include "sched/service_queues.h"

namespace rubato {

namespace {

class Tiresias final : public Policy {
 public:
  Tiresias(QueueOptions queues, PlacementRule placement)
      : queues_(std::move(queues)), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    queues_.update(input);
    Plan plan = grant_requested(input, queues_.order(input), WhenFull::kSkip, placement_);
    plan.wake_at_s = queues_.next_change(input, plan);
    return plan;
  }

 private:
  ServiceQueues queues_;
  PlacementRule placement_;
};

}  // namespace

PolicyInfo tiresias_policy() {
  std::vector<ParamSpec> params = queue_params();
  params.push_back(placement_param(PlacementRule::kMostFree));
  return {
      .name = "tiresias",
      .summary = "least attained service first, in queues; preemptive, no knowledge of durations",
      .source = "Tiresias, NSDI'19",
      .needs = {Knowledge::kNothing},
      .params = std::move(params),
      .make = [](const Params& given, Random) -> std::unique_ptr<Policy> {
        return std::make_unique<Tiresias>(queue_options(given), placement_rule(given));
      }};
}

}  // namespace rubato
