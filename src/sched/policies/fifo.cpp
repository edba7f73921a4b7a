// First in, first out, at the requested size, without preemption.
//
// Assumes nothing. Steps: running jobs keep their devices. Waiting jobs are served by priority,
// then arrival, while devices last. `fifo` stops at the first job that does not fit.
// `fifo-backfill` lets smaller jobs behind it start. O(jobs) per decision (O(jobs log jobs) with
// several priorities).
#include "sched/gang.h"
#include "sched/policies/policies.h"

namespace rubato {

namespace {

class Fifo final : public Policy {
 public:
  Fifo(WhenFull when_full, PlacementRule placement)
      : when_full_(when_full), placement_(placement) {}

  Plan decide(const PolicyInput& input) override {
    return grant_requested(input, running_first(input, by_priority_then_arrival(input)), when_full_,
                           placement_);
  }

 private:
  WhenFull when_full_;
  PlacementRule placement_;
};

}  // namespace

PolicyInfo fifo_policy() {
  return {.name = "fifo",
          .summary = "first in, first out; the first job that does not fit blocks the rest",
          .source = "textbook",
          .needs = {Knowledge::kNothing},
          .params = {placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Fifo>(WhenFull::kStop, placement_rule(params));
          }};
}

PolicyInfo fifo_backfill_policy() {
  return {.name = "fifo-backfill",
          .summary = "first in, first out; jobs behind a job that does not fit may start",
          .source = "textbook",
          .needs = {Knowledge::kNothing},
          .params = {placement_param(PlacementRule::kBestFit)},
          .make = [](const Params& params, Random) -> std::unique_ptr<Policy> {
            return std::make_unique<Fifo>(WhenFull::kSkip, placement_rule(params));
          }};
}

}  // namespace rubato
