// The unix users behind callers, tenants and jobs (isolation.h).
#include <fmt/format.h>
#include <unistd.h>

#include "control/live_controller.h"

namespace rubato::control {

std::optional<Caller> LiveController::local_caller(uid_t uid) const {
  std::optional<Caller> caller = caller_of(uid);
  if (caller) caller->token_version = token_version(*caller);
  return caller;
}

std::optional<Caller> LiveController::caller_of(uid_t uid) const {
  std::string name = unix_user_name(uid);
  if (uid == 0 || uid == geteuid()) return Caller{.tenant = "", .admin = true, .user = name};
  const ReadLock lock(mutex_);
  const std::map<std::string, Tenant>& tenants = store_->state().tenants;
  for (const auto& [tenant, record] : tenants) {
    if (record.user == name || record.user == std::to_string(uid)) {
      return Caller{.tenant = tenant, .admin = false, .user = std::move(name)};
    }
  }
  // A tenant that an administrator made belongs to whom the administrator says, not to a namesake.
  if (!options_.local_users || tenants.contains(name)) return std::nullopt;
  return Caller{.tenant = name, .admin = false, .user = name};
}

Status LiveController::settle_user(const Caller& caller, const std::string& tenant,
                                   JobDocument& document) const {
  if (!options_.isolation.users) {
    if (document.user.empty()) return ok_status();
    return invalid_input(
        "user: this daemon runs all jobs as itself; leave the field out, or start it as root with "
        "--isolation user");
  }
  std::string of_tenant;
  {
    const ReadLock lock(mutex_);
    const auto found = store_->state().tenants.find(tenant);
    if (found != store_->state().tenants.end()) of_tenant = found->second.user;
  }
  // Root's own jobs have no user: root submits for tenants.
  const std::string& own = caller.admin ? of_tenant : caller.user.empty() ? of_tenant : caller.user;
  if (document.user.empty()) document.user = own;
  if (document.user.empty()) {
    return Error{ErrorCode::kRefused,
                 fmt::format("tenant '{0}' has no unix user to run jobs as; an administrator gives "
                             "it one: rubato tenants set {0} --user NAME",
                             tenant)};
  }
  if (!caller.admin && document.user != own) {
    return invalid_input(fmt::format("user: your jobs run as {}, not as {}; leave the field out",
                                     own, document.user));
  }
  const Result<UnixUser> user = find_unix_user(document.user);
  return user.ok() ? ok_status() : Status(invalid_input("user: " + user.error().message));
}

AsUser LiveController::rights_for(const JobDocument& document) const {
  if (!options_.isolation.users) return {0, 0, {}};  // the daemon's own
  const Result<UnixUser> user = find_unix_user(document.user);
  if (user.ok()) return AsUser(*user);
  constexpr uid_t kNobody = 65534;
  return {kNobody, kNobody, {kNobody}};
}

Status LiveController::check_tenant_user(const std::string& name, const std::string& user) const {
  if (user.empty()) return ok_status();
  for (const auto& [other, tenant] : store_->state().tenants) {
    if (other == name || tenant.user != user) continue;
    return invalid_input(fmt::format("user: {} is the user of tenant '{}' already", user, other));
  }
  return ok_status();
}

}  // namespace rubato::control
