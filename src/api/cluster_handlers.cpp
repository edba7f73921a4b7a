#include "api/handlers.h"
#include "api/metrics.h"
#include "api/plans.h"
#include "api/policy_list.h"
#include "base/json_text.h"

namespace rubato::api {

namespace {

using control::Reservation;
using control::Tenant;
using nlohmann::json;

// Leaves out the hash of the token.
json public_json(const Tenant& tenant) {
  json shown = {{"name", tenant.name},
                {"weight", tenant.weight},
                {"quota", tenant.quota},
                {"max_queued", tenant.max_queued},
                {"max_streams", tenant.max_streams},
                {"token_expires", tenant.token_expires}};
  if (!tenant.user.empty()) shown["user"] = tenant.user;
  return shown;
}

using Settings = std::map<std::string, std::string, std::less<>>;

Settings settings_in(const json& body) {
  Settings settings;
  const json given = body.value("settings", json::object());
  for (const auto& [name, value] : given.items()) {
    settings[name] = value.is_string() ? value.get<std::string>() : compact_json(value);
  }
  return settings;
}

}  // namespace

Reply get_cluster(const Call& call) { return json_reply(call.controller.cluster(call.caller)); }

Reply list_policies(const Call& call) {
  return json_reply({{"active", call.controller.policy_name()}, {"policies", policy_list()}});
}

Reply note_supply(const Call& call) {
  const Status done = call.controller.note_supply(
      call.caller, call.body.at("text").get<std::string>(), call.body.at("for_s").get<double>());
  return done.ok() ? Reply{.status = 204, .content_type = ""} : error_reply(done.error());
}

Reply forecast_policy(const Call& call) {
  // Only what the work may still use when the caller is gone.
  return call.plans.run(
      call.caller.admin ? "" : call.caller.tenant, call.gone,
      [&controller = call.controller, caller = call.caller, settings = settings_in(call.body),
       name = call.body.at("name").get<std::string>()](const Plans::Abandoned& abandoned) {
        const Result<json> next = controller.forecast(caller, name, settings, abandoned);
        return next.ok() ? json_reply(*next) : error_reply(400, "invalid", next.error().message);
      });
}

Reply use_policy(const Call& call) {
  const Settings settings = settings_in(call.body);
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
  control::TenantChange change;
  const auto given = [&](const char* field_name, auto& field) {
    if (call.body.contains(field_name)) field.emplace(call.body.at(field_name));
  };
  given("weight", change.weight);
  given("quota", change.quota);
  given("max_queued", change.max_queued);
  given("max_streams", change.max_streams);
  given("user", change.user);
  given("expires_in_s", change.token_lasts_s);
  change.new_token = call.body.value("new_token", false);
  Result<control::ChangedTenant> changed = call.controller.set_tenant(call.caller, name, change);
  if (!changed.ok()) return error_reply(changed.error());
  json answer = public_json(changed->tenant);
  if (!changed->token.empty()) answer["token"] = changed->token;
  return json_reply(answer);
}

Reply remove_tenant(const Call& call) {
  const Status removed =
      call.controller.remove_tenant(call.caller, call.text("tenant"), call.flag("cancel"));
  if (!removed.ok()) return error_reply(removed.error());
  return {.status = 204};
}

Reply get_snapshot(const Call& call) {
  const Result<json> snapshot = call.controller.snapshot(call.caller);
  return snapshot.ok() ? json_reply(*snapshot) : error_reply(snapshot.error());
}

Reply get_openapi(const Call&) { return json_reply(openapi()); }

Reply get_job_schema(const Call&) { return json_reply(control::job_schema()); }

Reply get_metrics(const Call& call) {
  const control::ControllerMetrics metrics = call.controller.metrics();
  // A tenant sees no other. Without a token, the operator has opened them to everybody.
  const std::string only = call.caller.admin ? "" : call.caller.tenant;
  return {
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .body = metrics_text(metrics) + tenant_metrics_text(metrics, only) + call.metrics_of_server};
}

Reply get_health(const Call& call) {
  if (call.controller.store_problem().empty()) return json_reply({{"status", "ok"}});
  // Without the path, because anyone may ask.
  return json_reply({{"status", "read-only"},
                     {"reason",
                      "the log cannot be written (is the disk full?); jobs continue, "
                      "nothing can be changed; it goes on by itself"}},
                    503);
}

}  // namespace rubato::api
