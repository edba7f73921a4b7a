#include "api/handlers.h"
#include "api/metrics.h"
#include "api/policy_list.h"
#include "base/json_text.h"

namespace rubato::api {

namespace {

using control::Reservation;
using control::Tenant;
using nlohmann::json;

// Leaves out the hash of the token.
json public_json(const Tenant& tenant) {
  json shown = {{"name", tenant.name}, {"weight", tenant.weight}, {"quota", tenant.quota}};
  if (!tenant.user.empty()) shown["user"] = tenant.user;
  return shown;
}

}  // namespace

Reply get_cluster(const Call& call) { return json_reply(call.controller.cluster(call.caller)); }

Reply list_policies(const Call& call) {
  return json_reply({{"active", call.controller.policy_name()}, {"policies", policy_list()}});
}

Reply use_policy(const Call& call) {
  std::map<std::string, std::string, std::less<>> settings;
  const json given = call.body.value("settings", json::object());
  for (const auto& [name, value] : given.items()) {
    settings[name] = value.is_string() ? value.get<std::string>() : compact_json(value);
  }
  const Status used =
      call.controller.use_policy(call.caller, call.body.at("name").get<std::string>(), settings);
  if (!used.ok()) {
    // An unknown policy is an invalid value here, not a missing resource.
    return error_reply(400, "invalid", used.error().message);
  }
  return json_reply({{"active", call.controller.policy_name()}, {"settings", settings}});
}

Reply list_reservations(const Call& call) {
  json list = json::array();
  for (const Reservation& one : call.controller.reservations())
    list.push_back(control::to_json(one));
  return json_reply({{"reservations", std::move(list)}});
}

Reply make_reservation(const Call& call) {
  const Result<Reservation> made = call.controller.reserve(
      call.caller, call.body.at("devices").get<int>(), call.body.at("seconds").get<double>());
  if (!made.ok()) return error_reply(made.error());
  return json_reply(control::to_json(*made), 201);
}

Reply release_reservation(const Call& call) {
  const Status released = call.controller.release(call.caller, call.number("reservation"));
  if (!released.ok()) return error_reply(released.error());
  return {.status = 204};
}

Reply list_tenants(const Call& call) {
  json list = json::array();
  for (const Tenant& one : call.controller.tenants(call.caller)) list.push_back(public_json(one));
  return json_reply({{"tenants", std::move(list)}});
}

Reply set_tenant(const Call& call) {
  const std::string name = call.text("tenant");
  const double weight = call.body.value("weight", 1.0);
  const int quota = call.body.value("quota", 0);
  const std::string user = call.body.value("user", "");
  if (!user.empty()) {  // a mistake in it must not cost the token of a new tenant
    const Result<control::UnixUser> found = control::find_unix_user(user);
    if (!found.ok()) return error_reply(invalid_input("user: " + found.error().message));
  }
  const Result<std::string> token = call.controller.set_tenant(call.caller, name, weight, quota,
                                                               call.body.value("new_token", false));
  if (!token.ok()) return error_reply(token.error());
  if (call.body.contains("user")) {
    const Status linked = call.controller.set_tenant_user(call.caller, name, user);
    if (!linked.ok()) return error_reply(linked.error());
  }
  json answer = public_json(Tenant{.name = name, .weight = weight, .quota = quota, .user = user});
  if (!token->empty()) answer["token"] = *token;
  return json_reply(answer);
}

Reply get_snapshot(const Call& call) {
  const Result<json> snapshot = call.controller.snapshot(call.caller);
  return snapshot.ok() ? json_reply(*snapshot) : error_reply(snapshot.error());
}

Reply get_openapi(const Call&) { return json_reply(openapi()); }

Reply get_job_schema(const Call&) { return json_reply(control::job_schema()); }

Reply get_metrics(const Call& call) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = metrics_text(call.controller.metrics()) + call.metrics_of_server};
}

Reply get_health(const Call&) { return json_reply({{"status", "ok"}}); }

}  // namespace rubato::api
