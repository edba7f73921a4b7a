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
          .max_streams = record.value("max_streams", 0),
          .user = record.value("user", "")};
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

void read_setting(std::string_view name, const json& record, State& state) {
  if (name == "policy") {
    record.at("name").get_to(state.policy);
    for (const auto& [key, value] : record.at("settings").items()) {
      state.policy_settings[key] = value.get<std::string>();
    }
    state.supply = record.value("supply", "");  // younger than the first databases
    state.supply_until = record.value("supply_until", 0.0);
  } else if (name == "next") {
    record.at("job").get_to(state.next_job);
    record.at("reservation").get_to(state.next_reservation);
    const json ended_jobs = record.value("ended", json::object());
    for (const auto& [name_of_phase, count] : ended_jobs.items()) {
      const auto phase = parse_phase(name_of_phase);
      if (phase) state.ended_jobs[*phase] = count.get<std::int64_t>();
    }
  }
}

}  // namespace

Result<JobRecord> job_of_row(const Statement& row) {
  json record = parse_json(row.text(1));
  json document = parse_json(row.text(0));
  if (!record.is_object() || document.is_discarded()) {
    return invalid_input("the row of a job is not JSON");
  }
  record["document"] = std::move(document);
  return job_from_json(record);
}

std::string StoreViews::named(std::string_view table, Tables tables) {
  return fmt::format("{}{}", tables == Tables::kBase ? "base_" : "", table);
}

Result<StoreViews> StoreViews::make(Database& database, Tables tables) {
  StoreViews views(tables);
  const std::string jobs = views.named("jobs");
  const std::pair<Statement*, std::string> statements[] = {
      {&views.insert_job_,
       fmt::format("INSERT INTO {} (number, tenant, phase, document, record, name, submitted_at, "
                   "ended_at, rest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   jobs)},
      {&views.update_job_,
       fmt::format("UPDATE {} SET phase = ?, record = ?, ended_at = ?, rest = ? WHERE number = ?",
                   jobs)},
      {&views.update_document_,
       fmt::format("UPDATE {} SET document = ?, name = ? WHERE number = ?", jobs)},
      {&views.drop_job_, fmt::format("DELETE FROM {} WHERE number = ?", jobs)},
      {&views.drop_resting_, fmt::format("DELETE FROM {} WHERE rest = 1", jobs)},
      {&views.put_tenant_,
       fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", views.named("tenants"))},
      {&views.drop_tenant_, fmt::format("DELETE FROM {} WHERE name = ?", views.named("tenants"))},
      {&views.put_reservation_,
       fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", views.named("reservations"))},
      {&views.drop_reservation_,
       fmt::format("DELETE FROM {} WHERE number = ?", views.named("reservations"))},
      {&views.put_node_,
       fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", views.named("nodes"))},
      {&views.drop_node_, fmt::format("DELETE FROM {} WHERE name = ?", views.named("nodes"))},
      {&views.put_setting_,
       fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", views.named("settings"))},
      {&views.put_profile_,
       fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?)", views.named("profiles"))},
      {&views.put_seq_, fmt::format("UPDATE meta SET value = ? WHERE name = '{}'",
                                    tables == Tables::kBase ? "base_seq" : "view_seq")},
      {&views.put_key_, "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?)"},
      {&views.note_removal_, "INSERT OR REPLACE INTO removals VALUES (?, ?)"},
      {&views.count_archived_,
       "UPDATE meta SET value = value - (SELECT count(*) FROM jobs WHERE number = ? AND kept = 0) "
       "WHERE name = 'archived'"},
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
  const std::int64_t rest = at_rest(job) ? 1 : 0;
  if (!is_new) {
    update_job_.bind(to_string(job.phase)).bind(record).bind(job.ended_at).bind(rest);
    return update_job_.bind(job.number).run();
  }
  const std::string document = compact_json(to_json(job.document));
  const std::string name = job_title(job.document);
  insert_job_.bind(job.number).bind(job.tenant).bind(to_string(job.phase)).bind(document);
  insert_job_.bind(record).bind(name).bind(job.submitted_at).bind(job.ended_at).bind(rest);
  return insert_job_.run();
}

Status StoreViews::put_key(const JobRecord& job) {
  if (job.key.empty() || tables_ == Tables::kBase) return ok_status();
  return put_key_.bind(job.tenant).bind(job.key).bind(job.number).bind(job.submitted_at).run();
}

Status StoreViews::put_document(const JobRecord& job) {
  const std::string document = compact_json(to_json(job.document));
  const std::string name = job_title(job.document);
  return update_document_.bind(document).bind(name).bind(job.number).run();
}

Status StoreViews::drop_job(JobNumber number, const std::string& uid) {
  if (tables_ == Tables::kNow) {
    if (auto status = note_removal_.bind(number).bind(uid).run(); !status) return status;
    if (auto status = count_archived_.bind(number).run(); !status) return status;
  }
  return drop_job_.bind(number).run();
}

Status StoreViews::drop_resting() { return drop_resting_.run(); }

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
                    {{"name", state.policy},
                     {"settings", state.policy_settings},
                     {"supply", state.supply},
                     {"supply_until", state.supply_until}});
}

Status StoreViews::put_counters(const State& state) {
  json ended_jobs = json::object();
  for (const auto& [phase, count] : state.ended_jobs) {
    ended_jobs[std::string(to_string(phase))] = count;
  }
  const json next{{"job", state.next_job},
                  {"reservation", state.next_reservation},
                  {"ended", std::move(ended_jobs)}};
  if (auto status = put_record(put_setting_, "next", next); !status) return status;
  return put_seq_.bind(state.last_seq).run();
}

Status StoreViews::write(const StateDelta& delta) {
  const State& after = delta.after();
  for (const JobNumber number : delta.jobs()) {
    const auto found = after.jobs.find(number);
    if (found == after.jobs.end()) continue;  // removed, or named by an event that changes no job
    if (auto status = put_job(found->second, delta.is_new(number)); !status) return status;
    if (delta.is_new(number)) {
      if (auto status = put_key(found->second); !status) return status;
    }
    if (!delta.has_new_document(number)) continue;
    if (auto status = put_document(found->second); !status) return status;
  }
  for (const auto& [number, uid] : delta.removed()) {
    if (auto status = drop_job(number, uid); !status) return status;
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
  for (const std::string& name : delta.nodes()) {
    const auto found = after.nodes.find(name);
    auto status = found == after.nodes.end() ? drop_node_.bind(name).run()
                                             : put_record(put_node_, name, to_json(found->second));
    if (!status) return status;
  }
  if (delta.policy()) {
    if (auto status = put_policy(after); !status) return status;
  }
  return put_counters(after);
}

Status StoreViews::rewrite(Database& database, const State& state) {
  auto status = database.execute(fmt::format(
      "DELETE FROM jobs WHERE number >= {}; DELETE FROM tenants; DELETE FROM reservations;"
      "DELETE FROM settings; DELETE FROM profiles; DELETE FROM nodes",
      state.folded_below));
  if (!status) return status;
  for (const auto& [number, job] : state.jobs) {
    if (status = drop_job_.bind(number).run(); !status) return status;
    if (status = put_job(job, true); !status) return status;
  }
  for (const auto& [key, use] : state.keys) {
    put_key_.bind(key.first).bind(key.second).bind(use.job).bind(use.at);
    if (status = put_key_.run(); !status) return status;
  }
  status = database.execute(
      "UPDATE meta SET value = (SELECT count(*) FROM jobs WHERE kept = 0) WHERE name = 'archived'");
  if (!status) return status;
  for (const auto& [name, tenant] : state.tenants) {
    if (status = put_record(put_tenant_, name, to_json(tenant)); !status) return status;
  }
  for (const auto& [number, reservation] : state.reservations) {
    if (status = put_reservation(number, state); !status) return status;
  }
  for (const auto& [name, profile] : state.profiles) {
    if (status = put_record(put_profile_, name, profile); !status) return status;
  }
  for (const auto& [name, node] : state.nodes) {
    if (status = put_record(put_node_, name, to_json(node)); !status) return status;
  }
  if (status = put_policy(state); !status) return status;
  return put_counters(state);
}

// A database of an earlier version, which is replayed as it is, has no such table.
Status StoreViews::read_nodes(Database& database, Tables tables, State& state) {
  const auto there = database.read_integer(
      fmt::format("SELECT count(*) FROM sqlite_schema WHERE name = '{}'", named("nodes", tables)));
  if (!there) return there.error();
  if (*there == 0) return ok_status();
  return each_row(database, "SELECT name, record FROM " + named("nodes", tables),
                  [&](const Statement& row) -> Status {
                    auto node = node_record_from(parse_json_or_throw(row.text(1)));
                    if (!node) return node.error();
                    state.nodes.emplace(row.text(0), std::move(*node));
                    return ok_status();
                  });
}

Result<State> StoreViews::read(Database& database, Tables which) {
  State state;
  const bool base = which == Tables::kBase;
  const auto seq = database.read_integer(base ? "SELECT value FROM meta WHERE name = 'base_seq'"
                                              : "SELECT value FROM meta WHERE name = 'view_seq'");
  if (!seq) return seq.error();
  state.last_seq = *seq;
  try {
    const std::pair<std::string, std::function<Status(const Statement&)>> tables[] = {
        {fmt::format("SELECT document, record FROM {} WHERE rest = 0 ORDER BY number",
                     named("jobs", which)),
         [&](const Statement& row) -> Status {
           auto job = job_of_row(row);
           if (!job) return job.error();
           state.jobs.emplace_hint(state.jobs.end(), job->number, std::move(*job));
           return ok_status();
         }},
        {"SELECT name, record FROM " + named("tenants", which),
         [&](const Statement& row) {
           state.tenants[std::string(row.text(0))] = tenant_from(parse_json_or_throw(row.text(1)));
           return ok_status();
         }},
        {"SELECT number, record FROM " + named("reservations", which),
         [&](const Statement& row) {
           state.reservations[row.integer(0)] = reservation_from(parse_json_or_throw(row.text(1)));
           return ok_status();
         }},
        {"SELECT name, record FROM " + named("settings", which),
         [&](const Statement& row) {
           read_setting(row.text(0), parse_json_or_throw(row.text(1)), state);
           return ok_status();
         }},
        {"SELECT name, record FROM " + named("profiles", which),
         [&](const Statement& row) {
           state.profiles[std::string(row.text(0))] = parse_json_or_throw(row.text(1));
           return ok_status();
         }},
    };
    for (const auto& [sql, use] : tables) {
      if (auto status = each_row(database, sql, use); !status) return status.error();
    }
    if (auto status = read_nodes(database, which, state); !status) return status.error();
  } catch (const json::exception& problem) {
    return invalid_input(problem.what());
  }
  if (base) state.folded_below = state.next_job;
  return state;
}

}  // namespace rubato::control
