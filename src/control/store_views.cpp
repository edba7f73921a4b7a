#include "control/store_views.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/json_text.h"

namespace rubato::control {

namespace {

using nlohmann::json;

// Everything except the document, which seldom changes and has its own column.
std::string record_text(const JobRecord& job) {
  json record = to_json(job);
  record.erase("document");
  return compact_json(record);
}

Tenant tenant_from(const json& record) {
  return {.name = record.at("name").get<std::string>(),
          .weight = record.at("weight").get<double>(),
          .quota = record.at("quota").get<int>(),
          .token_sha256 = record.at("token_sha256").get<std::string>(),
          .token_expires = record.value("token_expires", 0.0),
          .max_queued = record.value("max_queued", 0),
          .max_streams = record.value("max_streams", 0)};
}

Reservation reservation_from(const json& record) {
  return {record.at("number").get<std::int64_t>(), record.at("devices").get<int>(),
          record.at("from").get<double>(), record.at("until").get<double>()};
}

Status each_row(Database& database, std::string_view sql,
                const std::function<Status(const Statement&)>& use) {
  auto statement = database.prepare(sql);
  if (!statement) return statement.error();
  while (true) {
    const auto row = statement->next();
    if (!row) return row.error();
    if (!*row) return ok_status();
    if (auto status = use(*statement); !status) return status;
  }
}

Status read_job(const Statement& row, State& state) {
  json record = parse_json_or_throw(row.text(1));
  record["document"] = parse_json_or_throw(row.text(0));
  auto job = job_from_json(record);
  if (!job) return job.error();
  if (!job->key.empty()) state.keys[{job->tenant, job->key}] = job->number;
  state.jobs.emplace_hint(state.jobs.end(), job->number, std::move(*job));
  return ok_status();
}

void read_setting(std::string_view name, const json& record, State& state) {
  if (name == "policy") {
    record.at("name").get_to(state.policy);
    for (const auto& [key, value] : record.at("settings").items()) {
      state.policy_settings[key] = value.get<std::string>();
    }
  } else if (name == "next") {
    record.at("job").get_to(state.next_job);
    record.at("reservation").get_to(state.next_reservation);
  }
}

}  // namespace

Result<StoreViews> StoreViews::make(Database& database) {
  StoreViews views;
  const std::pair<Statement*, std::string_view> statements[] = {
      {&views.insert_job_, "INSERT INTO jobs VALUES (?, ?, ?, ?, ?)"},
      {&views.update_job_, "UPDATE jobs SET phase = ?, record = ? WHERE number = ?"},
      {&views.update_document_, "UPDATE jobs SET document = ? WHERE number = ?"},
      {&views.put_tenant_, "INSERT OR REPLACE INTO tenants VALUES (?, ?)"},
      {&views.drop_tenant_, "DELETE FROM tenants WHERE name = ?"},
      {&views.put_reservation_, "INSERT OR REPLACE INTO reservations VALUES (?, ?)"},
      {&views.drop_reservation_, "DELETE FROM reservations WHERE number = ?"},
      {&views.put_setting_, "INSERT OR REPLACE INTO settings VALUES (?, ?)"},
      {&views.put_profile_, "INSERT OR REPLACE INTO profiles VALUES (?, ?)"},
      {&views.put_seq_, "UPDATE meta SET value = ? WHERE name = 'view_seq'"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return views;
}

Status StoreViews::put_job(const JobRecord& job, bool is_new) {
  const std::string record = record_text(job);
  if (!is_new) return update_job_.bind(to_string(job.phase)).bind(record).bind(job.number).run();
  const std::string document = compact_json(to_json(job.document));
  insert_job_.bind(job.number).bind(job.tenant).bind(to_string(job.phase));
  return insert_job_.bind(document).bind(record).run();
}

Status StoreViews::put_document(const JobRecord& job) {
  const std::string document = compact_json(to_json(job.document));
  return update_document_.bind(document).bind(job.number).run();
}

Status StoreViews::put_record(Statement& statement, std::string_view name, const json& record) {
  const std::string text = compact_json(record);
  return statement.bind(name).bind(text).run();
}

Status StoreViews::put_reservation(std::int64_t number, const State& state) {
  const auto found = state.reservations.find(number);
  if (found == state.reservations.end()) return drop_reservation_.bind(number).run();
  const std::string text = compact_json(to_json(found->second));
  return put_reservation_.bind(number).bind(text).run();
}

Status StoreViews::put_policy(const State& state) {
  return put_record(put_setting_, "policy",
                    {{"name", state.policy}, {"settings", state.policy_settings}});
}

Status StoreViews::put_counters(const State& state) {
  const json next{{"job", state.next_job}, {"reservation", state.next_reservation}};
  if (auto status = put_record(put_setting_, "next", next); !status) return status;
  return put_seq_.bind(state.last_seq).run();
}

Status StoreViews::write(const StateDelta& delta) {
  const State& after = delta.after();
  for (const JobNumber number : delta.jobs()) {
    const auto found = after.jobs.find(number);
    if (found == after.jobs.end()) continue;  // named by an event that changes no job
    if (auto status = put_job(found->second, delta.is_new(number)); !status) return status;
    if (!delta.has_new_document(number)) continue;
    if (auto status = put_document(found->second); !status) return status;
  }
  for (const std::string& name : delta.tenants()) {
    const auto found = after.tenants.find(name);
    auto status = found == after.tenants.end()
                      ? drop_tenant_.bind(name).run()
                      : put_record(put_tenant_, name, to_json(found->second));
    if (!status) return status;
  }
  for (const std::int64_t number : delta.reservations()) {
    if (auto status = put_reservation(number, after); !status) return status;
  }
  for (const std::string& name : delta.profiles()) {
    auto status = put_record(put_profile_, name, after.profiles.at(name));
    if (!status) return status;
  }
  if (delta.policy()) {
    if (auto status = put_policy(after); !status) return status;
  }
  return put_counters(after);
}

Status StoreViews::write_all(const State& state) {
  for (const auto& [number, job] : state.jobs) {
    if (auto status = put_job(job, true); !status) return status;
  }
  for (const auto& [name, tenant] : state.tenants) {
    if (auto status = put_record(put_tenant_, name, to_json(tenant)); !status) return status;
  }
  for (const auto& [number, reservation] : state.reservations) {
    if (auto status = put_reservation(number, state); !status) return status;
  }
  for (const auto& [name, profile] : state.profiles) {
    if (auto status = put_record(put_profile_, name, profile); !status) return status;
  }
  if (auto status = put_policy(state); !status) return status;
  return put_counters(state);
}

Result<State> StoreViews::read(Database& database) {
  State state;
  const auto seq = database.read_integer("SELECT value FROM meta WHERE name = 'view_seq'");
  if (!seq) return seq.error();
  state.last_seq = *seq;
  try {
    const std::pair<std::string_view, std::function<Status(const Statement&)>> tables[] = {
        {"SELECT document, record FROM jobs ORDER BY number",
         [&](const Statement& row) { return read_job(row, state); }},
        {"SELECT name, record FROM tenants",
         [&](const Statement& row) {
           state.tenants[std::string(row.text(0))] = tenant_from(parse_json_or_throw(row.text(1)));
           return ok_status();
         }},
        {"SELECT number, record FROM reservations",
         [&](const Statement& row) {
           state.reservations[row.integer(0)] = reservation_from(parse_json_or_throw(row.text(1)));
           return ok_status();
         }},
        {"SELECT name, record FROM settings",
         [&](const Statement& row) {
           read_setting(row.text(0), parse_json_or_throw(row.text(1)), state);
           return ok_status();
         }},
        {"SELECT name, record FROM profiles",
         [&](const Statement& row) {
           state.profiles[std::string(row.text(0))] = parse_json_or_throw(row.text(1));
           return ok_status();
         }},
    };
    for (const auto& [sql, use] : tables) {
      if (auto status = each_row(database, sql, use); !status) return status.error();
    }
  } catch (const json::exception& problem) {
    return invalid_input(problem.what());
  }
  return state;
}

Status StoreViews::clear(Database& database) {
  return database.execute(
      "DELETE FROM jobs; DELETE FROM tenants; DELETE FROM reservations; DELETE FROM settings;"
      "DELETE FROM profiles; UPDATE meta SET value = 0 WHERE name = 'view_seq'");
}

}  // namespace rubato::control
