// What is done while a policy has not decided in time: running jobs keep their devices, and waiting
// jobs start on free ones at their smallest size, by priority and then by arrival. The first that
// does not fit blocks the rest, so that nobody overtakes it; jobs of a tenant whose quota is used
// up do not block others.
//
// A running job that may not keep its number (its range has changed, or its tenant's quota is used
// up by pins and more urgent jobs) is cut to what it may have. Wrap it in a PinnedPolicy for pins.
// O(jobs log jobs).
#pragma once

#include "sched/policy.h"
#include "sched/tenant_shares.h"

namespace rubato {

class StopgapPolicy final : public Policy {
 public:
  explicit StopgapPolicy(TenantRules rules) : rules_(std::move(rules)) {}

  Plan decide(const PolicyInput& input) override;

 private:
  // Of devices that the tenant may have.
  int quota_of(const std::string& tenant) const;

  TenantRules rules_;
};

}  // namespace rubato
