// Accounts and metrics of tenants.
#include "control/live_controller.h"

namespace rubato::control {

namespace {

constexpr std::size_t kMostRefusals = 1000;  // tenants and reasons that are told apart

}  // namespace

Result<UsageReport> LiveController::usage(const Caller& caller, UsageQuery query) const {
  if (!caller.admin) query.tenant = caller.tenant;
  query.now = now_unix();
  return store_->usage(query);
}

Error LiveController::refuse(const std::string& tenant, const char* reason, const Error& error) {
  const WriteLock lock(mutex_);
  auto& counts = metrics_.refused;
  std::pair<std::string, std::string> key{tenant, reason};
  // Names of tenants that do not exist must not fill the memory.
  if (counts.size() >= kMostRefusals && !counts.contains(key)) key.first = "";
  ++counts[key];
  return error;
}

void LiveController::measure_tenants(ControllerMetrics& metrics) const {
  const State& state = store_->state();
  std::map<std::string, std::size_t> places;
  const auto of = [&](const std::string& name) -> TenantMetrics& {
    const auto [place, is_new] = places.try_emplace(name, metrics.tenants.size());
    if (is_new) metrics.tenants.emplace_back(name, TenantMetrics{});
    return metrics.tenants[place->second].second;
  };
  for (const auto& [name, time] : store_->usage_totals(now_unix())) of(name).time = time;
  for (const auto& [name, tenant] : state.tenants) of(name).quota = tenant.quota;
  for (const auto& [number, job] : state.jobs) {
    if (ended(job.phase) && job.held == 0) continue;
    TenantMetrics& tenant = of(job.tenant);
    tenant.running += job.phase == Phase::kRunning ? 1 : 0;
    tenant.queued += job.phase == Phase::kQueued ? 1 : 0;
    tenant.held += job.held;
  }
}

}  // namespace rubato::control
