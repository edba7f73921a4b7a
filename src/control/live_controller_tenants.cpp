// Tenants: who they are, and commands about them.
#include <fmt/format.h>

#include <cmath>

#include "base/sha256.h"
#include "control/live_controller.h"
#include "control/session.h"
#include "control/tokens.h"

namespace rubato::control {

namespace {

constexpr double kLongestToken = 100 * 366.0 * 86'400;

Error only_administrators() { return {ErrorCode::kForbidden, "only an administrator may do this"}; }

Status check_change(const TenantChange& change) {
  if (change.weight && (!(*change.weight > 0) || *change.weight > 1e6)) {
    return invalid_input("weight: must be greater than 0 and at most 1000000");
  }
  if (change.quota && *change.quota < 0) {
    return invalid_input("quota: must be a maximum number of devices, or 0 for no limit");
  }
  if (change.max_queued && *change.max_queued < 0) {
    return invalid_input("max_queued: must be a maximum number of jobs, or 0 for no limit");
  }
  if (change.max_streams && *change.max_streams < 0) {
    return invalid_input("max_streams: must be a maximum number of streams, or 0 for the default");
  }
  if (change.user && !change.user->empty()) {
    const Result<UnixUser> found = find_unix_user(*change.user);
    if (!found.ok()) return invalid_input("user: " + found.error().message);
  }
  const double lasts = change.token_lasts_s.value_or(0);
  if (!std::isfinite(lasts) || lasts < 0 || lasts > kLongestToken) {
    return invalid_input("expires_in_s: must be at most 100 years, or 0 for a token that stays");
  }
  return ok_status();
}

constexpr const char* kAdminVersion = "admin";

bool is_valid(const Tenant& tenant, double now) {
  return !tenant.token_sha256.empty() && (tenant.token_expires == 0 || now < tenant.token_expires);
}

}  // namespace

std::optional<Caller> LiveController::authenticate(std::string_view token) const {
  const std::string digest = sha256_hex(token);
  const auto same = [&](const std::string& other) {
    if (other.size() != digest.size()) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < digest.size(); ++i) {
      difference |= static_cast<unsigned>(digest[i] ^ other[i]);
    }
    return difference == 0;
  };
  std::optional<Caller> caller;
  const double now = now_unix();
  const ReadLock lock(mutex_);
  for (const auto& [name, tenant] : store_->state().tenants) {
    if (same(tenant.token_sha256) && is_valid(tenant, now)) {
      caller = Caller{.tenant = name, .admin = false, .token_version = tenant.token_sha256};
    }
  }
  if (same(admin_token_sha256_)) {
    caller = Caller{.tenant = "", .admin = true, .token_version = kAdminVersion};
  }
  if (!caller) caller = agent_with(digest);
  return caller;
}

std::string LiveController::token_version(const Caller& caller) const {
  if (caller.admin) return kAdminVersion;
  const double now = now_unix();
  const ReadLock lock(mutex_);
  const auto found = store_->state().tenants.find(caller.tenant);
  if (found == store_->state().tenants.end() || !is_valid(found->second, now)) return "";
  return found->second.token_sha256;
}

std::string LiveController::make_session(const Caller& caller, double lasts_s) const {
  return signed_session(
      {.tenant = caller.tenant, .admin = caller.admin, .expires_at = now_unix() + lasts_s},
      caller.token_version, session_key());
}

std::optional<Caller> LiveController::session_caller(std::string_view session) const {
  const std::optional<Session> claimed = claimed_session(session);
  if (!claimed || now_unix() >= claimed->expires_at) return std::nullopt;
  Caller caller{.tenant = claimed->tenant, .admin = claimed->admin};
  caller.token_version = token_version(caller);
  if (caller.token_version.empty() || !is_signed(session, caller.token_version, session_key())) {
    return std::nullopt;
  }
  return caller;
}

// Nobody knows it without the administrator's token, and it changes with that.
std::string LiveController::session_key() const { return "session " + admin_token_sha256_; }

std::vector<Tenant> LiveController::tenants(const Caller& caller) const {
  const ReadLock lock(mutex_);
  std::vector<Tenant> result;
  for (const auto& [name, tenant] : store_->state().tenants) {
    if (caller.admin || caller.tenant == name) result.push_back(tenant);
  }
  return result;
}

Result<ChangedTenant> LiveController::set_tenant(const Caller& caller, const std::string& name,
                                                 const TenantChange& change) {
  if (!caller.admin) return only_administrators();
  if (const Status possible = check_change(change); !possible.ok()) return possible.error();
  return ask<ChangedTenant>([this, caller, name, change]() -> Result<ChangedTenant> {
    if (change.user) {
      if (Status free = check_tenant_user(name, *change.user); !free.ok()) return free.error();
    }
    const auto known = store_->state().tenants.find(name);
    ChangedTenant changed;
    if (known != store_->state().tenants.end()) changed.tenant = known->second;
    Tenant& tenant = changed.tenant;
    tenant.name = name;
    tenant.weight = change.weight.value_or(tenant.weight);
    tenant.quota = change.quota.value_or(tenant.quota);
    tenant.max_queued = change.max_queued.value_or(tenant.max_queued);
    tenant.max_streams = change.max_streams.value_or(tenant.max_streams);
    tenant.user = change.user.value_or(tenant.user);
    if (tenant.token_sha256.empty() || change.new_token) {
      Result<std::string> token = random_token();
      if (!token.ok()) return token.error();
      changed.token = std::move(*token);
      tenant.token_sha256 = sha256_hex(changed.token);
      tenant.token_expires = 0;
    }
    if (change.token_lasts_s) {
      tenant.token_expires = *change.token_lasts_s > 0 ? now_unix() + *change.token_lasts_s : 0;
    }
    Status done = append({given(caller, event("tenant", to_json(tenant)))});
    if (!done.ok()) return done.error();
    start_scheduler();
    return changed;
  });
}

Status LiveController::remove_tenant(const Caller& caller, const std::string& name,
                                     bool cancel_jobs) {
  if (!caller.admin) return only_administrators();
  return ask<std::monostate>([this, caller, name, cancel_jobs]() -> Status {
    if (!store_->state().tenants.contains(name)) {
      return Error{ErrorCode::kNotFound, fmt::format("there is no tenant '{}'", name)};
    }
    std::vector<Event> events;
    std::vector<JobNumber> active;
    for (const auto& [number, job] : store_->state().jobs) {
      if (job.tenant != name || ended(job.phase)) continue;
      active.push_back(number);
      events.push_back(given(caller, about(job, "cancelled", nlohmann::json::object())));
    }
    if (!active.empty() && !cancel_jobs) {
      return Error{
          ErrorCode::kRefused,
          fmt::format("tenant {} has {} that {} not ended, such as {}; cancel them first, "
                      "or delete it with them (--cancel)",
                      name, active.size() == 1 ? "a job" : fmt::format("{} jobs", active.size()),
                      active.size() == 1 ? "has" : "have", job_name_of(active.front()))};
    }
    events.push_back(given(caller, event("tenant_removed", {{"name", name}})));
    Status done = append(std::move(events));
    if (!done.ok()) return done;
    for (const JobNumber job : active) note_cancelled(job);
    start_scheduler();
    return done;
  });
}

}  // namespace rubato::control
