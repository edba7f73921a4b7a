#include "control/quota_check.h"

#include <fmt/format.h>

namespace rubato::control {

int quota_of(const std::string& tenant, const State& state) {
  const auto found = state.tenants.find(tenant);
  return found == state.tenants.end() ? 0 : found->second.quota;
}

Status check_quota(const JobDocument& document, const std::string& tenant, const State& state) {
  const int quota = quota_of(tenant, state);
  if (quota == 0 || document.min_devices <= quota) return ok_status();
  return invalid_input(fmt::format(
      "devices: the job needs at least {} devices, but tenant {} may hold at most {} (its quota), "
      "so it could never run; {}",
      document.min_devices, tenant, quota, quota_remedy(tenant, quota, document.min_devices)));
}

std::string quota_remedy(const std::string& tenant, int quota, int needs) {
  return fmt::format(
      "ask for {}, or have an administrator raise the quota: rubato tenants set {} --quota {}",
      quota == 1 ? "'devices: 1'" : fmt::format("'devices: 1..{}'", quota), tenant, needs);
}

}  // namespace rubato::control
