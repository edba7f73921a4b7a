// The reason for each change, derived from what the decision did to all jobs. A policy may hint why
// a job waits (Grant::waiting); a hint that the facts contradict is dropped.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sched/placement.h"
#include "sched/policy.h"

namespace rubato {

// One decision, about all jobs; `plan` is valid, `changes` are its placement. Linear in jobs.
class Decision {
 public:
  Decision(const Plan& plan, const PolicyInput& input, std::span<const PlacementChange> changes);

  DecisionFacts facts(std::size_t job) const;
  // The reason for a job that changed or that waits.
  Reason reason(std::size_t job) const;

 private:
  Reason reason_of_less(std::size_t job, const DecisionFacts& facts) const;
  Reason reason_to_wait(std::size_t job, const DecisionFacts& facts) const;
  int usable_for(const JobSpec& spec, const DeviceCounts& counts) const;
  int given_to_others(std::size_t job) const;

  const Plan& plan_;
  const PolicyInput& input_;
  std::vector<const Allocation*> after_;
  DeviceCounts free_before_;
  DeviceCounts free_;
  DeviceCounts gained_;  // by jobs that have more of a type than before
  int held_ = 0;         // by all jobs, after the decision
  int waiting_ = 0;      // jobs without devices
  std::unordered_map<std::string_view, int> held_by_tenant_;  // where a hint is about tenants
};

// The facts of a change that no policy made: devices were lost.
DecisionFacts facts_of_loss(const JobState& job, const Allocation& after);

}  // namespace rubato
