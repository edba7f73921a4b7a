// Any policy, where some jobs cannot use devices of several nodes (JobSpec::one_node).
//
// The policy decides as if devices of one type were interchangeable. What it grants each of these
// jobs is then put on one node:
//   - A job stays on its node. It moves, which costs it a restart from its checkpoint, only if it
//     would get less than half of what another node has for it.
//   - A job without a node gets the fullest one that has what it was granted, or the emptiest one
//     with less. If no node has the fewest devices that it can run on, the jobs of one node give
//     some back, as far as their own ranges allow.
// So a job may get less than the policy granted it, also nothing; it is never more, and a pinned
// job gets all or nothing.
#pragma once

#include <memory>

#include "sched/policy.h"

namespace rubato {

class OneNodePolicy final : public Policy {
 public:
  explicit OneNodePolicy(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

  Plan decide(const PolicyInput& input) override;

 private:
  std::unique_ptr<Policy> policy_;
};

// Puts the grants of those jobs in a valid plan on one node each.
void keep_to_one_node(Plan& plan, const PolicyInput& input);

}  // namespace rubato
