// Whether a job can ever run under its tenant's quota.
#pragma once

#include <string>

#include "base/result.h"
#include "control/state.h"

namespace rubato::control {

// 0: no limit, or the tenant is unknown.
int quota_of(const std::string& tenant, const State& state);

// Refuses a document whose smallest size is above the quota of this tenant, with what would help.
Status check_quota(const JobDocument& document, const std::string& tenant, const State& state);

// "ask for 'devices: 1..2', or have an administrator raise the quota: rubato tenants set ..."
std::string quota_remedy(const std::string& tenant, int quota, int needs);

}  // namespace rubato::control
