// Any policy, with jobs that are pinned to a number of devices (JobSpec::pinned_devices).
//
// At every decision pinned jobs get exactly their devices first, in order of arrival; the policy
// then divides the rest among the other jobs, and sees those that stand on devices of a pinned job
// as if they had lost them. So a pin is honoured before any job without one, whatever the policy.
//
// A pin cannot be honoured while fewer devices are usable than all pins ask for (a node is down,
// devices are reserved), or when its tenant's quota has become too small. It is suspended then,
// the newest first: the policy decides about the job as about any other, with at most the pinned
// number of devices, until the pin can be honoured again.
//
// Without pinned jobs the policy gets the input as it is. Costs beside the policy: O(jobs x types +
// devices x nodes).
#pragma once

#include <memory>

#include "sched/policy.h"
#include "sched/tenant_shares.h"

namespace rubato {

class PinnedPolicy final : public Policy {
 public:
  // The quotas of `rules` hold for pinned jobs; `policy` enforces its own rules.
  explicit PinnedPolicy(std::unique_ptr<Policy> policy, TenantRules rules = {});

  Plan decide(const PolicyInput& input) override;

 private:
  std::unique_ptr<Policy> policy_;
  TenantRules rules_;
};

}  // namespace rubato
