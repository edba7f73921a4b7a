#include "control/usage_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "control/json_fields.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr const char* kUsageTables = R"sql(
BEGIN IMMEDIATE;
CREATE TABLE usage (
  day INTEGER NOT NULL, tenant TEXT NOT NULL, job INTEGER NOT NULL, held_s REAL NOT NULL,
  trained_s REAL NOT NULL, PRIMARY KEY (day, tenant, job)) WITHOUT ROWID;
CREATE TABLE usage_jobs (job INTEGER PRIMARY KEY, name TEXT NOT NULL, user TEXT NOT NULL);
CREATE TABLE usage_labels (job INTEGER NOT NULL, label TEXT NOT NULL, PRIMARY KEY (job, label))
  WITHOUT ROWID;
CREATE TABLE usage_open (job INTEGER PRIMARY KEY, tenant TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE usage_tenants (
  id INTEGER PRIMARY KEY, tenant TEXT NOT NULL UNIQUE, held_s REAL NOT NULL,
  trained_s REAL NOT NULL);
INSERT OR REPLACE INTO meta VALUES ('usage_seq', -1);
COMMIT)sql";

// Whether the event can change what counts.
bool matters(const Event& event) {
  static constexpr std::array<std::string_view, 7> kTypes{
      "held", "stalled", "recovered", "restarted", "finished", "failed", "cancelled"};
  if (event.type == "view") {
    const std::string what = text_of(event.body, "type");
    return what == "view" || what == "started";
  }
  return std::find(kTypes.begin(), kTypes.end(), event.type) != kTypes.end();
}

// "name=value" of every label of the document.
std::vector<std::string> labels_of(const JobDocument& document) {
  std::vector<std::string> labels;
  const json all = to_json(document);
  const auto found = all.find("labels");
  if (found == all.end()) return labels;
  for (const auto& [name, value] : found->items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : compact_json(value);
    labels.push_back(found->is_array() ? text : fmt::format("{}={}", name, text));
  }
  return labels;
}

}  // namespace

Result<UsageTables> UsageTables::open(Database& database, std::int64_t last_seq) {
  const auto there =
      database.read_integer("SELECT count(*) FROM sqlite_schema WHERE name = 'usage_tenants'");
  if (!there) return there.error();
  if (*there == 0) {
    if (auto status = database.execute(kUsageTables); !status) {
      static_cast<void>(database.execute("ROLLBACK"));
      return status.error();
    }
  }
  const auto seq = database.read_integer("SELECT value FROM meta WHERE name = 'usage_seq'");
  if (!seq) return seq.error();
  UsageTables tables;
  if (auto status = tables.prepare(database); !status) return status.error();
  tables.stale_ = *seq != last_seq;
  if (tables.stale_) {
    auto status = database.execute(
        "DELETE FROM usage; DELETE FROM usage_jobs; DELETE FROM usage_labels;"
        "DELETE FROM usage_open; DELETE FROM usage_tenants");
    if (!status) return status.error();
    return tables;
  }
  if (auto status = tables.load(database); !status) return status.error();
  return tables;
}

Status UsageTables::prepare(Database& database) {
  const std::pair<Statement*, std::string_view> statements[] = {
      {&add_time_,
       "INSERT INTO usage VALUES (?, ?, ?, ?, ?) ON CONFLICT (day, tenant, job) DO UPDATE SET "
       "held_s = held_s + excluded.held_s, trained_s = trained_s + excluded.trained_s"},
      {&read_time_,
       "SELECT held_s - trained_s FROM usage WHERE day = ? AND tenant = ? AND job = ?"},
      {&put_job_, "INSERT OR REPLACE INTO usage_jobs VALUES (?, ?, ?)"},
      {&put_label_, "INSERT OR REPLACE INTO usage_labels VALUES (?, ?)"},
      {&put_open_, "INSERT OR REPLACE INTO usage_open VALUES (?, ?, ?)"},
      {&drop_open_, "DELETE FROM usage_open WHERE job = ?"},
      {&put_tenant_,
       "INSERT INTO usage_tenants (tenant, held_s, trained_s) VALUES (?, ?, ?) ON CONFLICT "
       "(tenant) DO UPDATE SET held_s = held_s + excluded.held_s, trained_s = trained_s + "
       "excluded.trained_s"},
      {&put_seq_, "UPDATE meta SET value = ? WHERE name = 'usage_seq'"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return ok_status();
}

Status UsageTables::load(Database& database) {
  auto meters = database.prepare("SELECT job, tenant, record FROM usage_open");
  if (!meters) return meters.error();
  while (true) {
    const auto row = meters->next();
    if (!row) return row.error();
    if (!*row) break;
    const auto meter = UsageMeter::from_json(parse_json(meters->text(2)));
    if (!meter) return meter.error();
    open_[meters->integer(0)] = {.tenant = std::string(meters->text(1)), .meter = *meter};
  }
  auto sums = database.prepare("SELECT tenant, held_s, trained_s FROM usage_tenants ORDER BY id");
  if (!sums) return sums.error();
  while (true) {
    const auto row = sums->next();
    if (!row) return row.error();
    if (!*row) return ok_status();
    place_in_totals_[std::string(sums->text(0))] = totals_.size();
    totals_.emplace_back(std::string(sums->text(0)),
                         DeviceTime{.held_s = sums->number(1), .trained_s = sums->number(2)});
  }
}

void UsageTables::note(const Event& event, const JobRecord* job) {
  if (event.job == 0 || !matters(event)) return;
  auto found = fresh_.meters.find(event.job);
  if (found == fresh_.meters.end()) {
    const auto known = open_.find(event.job);
    if (known != open_.end()) {
      found = fresh_.meters.insert(*known).first;
    } else if (event.type == "held" && job != nullptr && whole_in(event.body, "devices") > 0) {
      const bool ordinary = job->document.program == elastic::ProgramKind::kOpaque;
      found = fresh_.meters
                  .insert({event.job,
                           Open{.tenant = job->tenant, .meter = UsageMeter(event.at, ordinary)}})
                  .first;
      fresh_.jobs[event.job] = {.name = job_title(job->document),
                                .user = job->document.user,
                                .labels = labels_of(job->document)};
    } else {
      return;
    }
  }
  Open& open = found->second;
  if (open.meter.over()) return;
  DeviceTimeByDay& added = fresh_.added[{open.tenant, event.job}];
  for (const auto& [day, time] : open.meter.note(event)) added[day] += time;
  open.last_day = std::max(open.last_day, day_of(event.at));
  if (open.meter.take_ordinary()) fresh_.ordinary.push_back(event.job);
}

Status UsageTables::write_time(const std::string& tenant, JobNumber job,
                               const DeviceTimeByDay& days) {
  for (const auto& [day, time] : days) {
    add_time_.bind(day).bind(tenant).bind(job).bind(time.held_s).bind(time.trained_s);
    if (auto status = add_time_.run(); !status) return status;
    fresh_.totals[tenant] += time;
  }
  return ok_status();
}

Status UsageTables::write_ordinary(JobNumber job, const Open& open) {
  DeviceTimeByDay rest;
  for (Day day = open.meter.first_day(); day <= open.last_day; ++day) {
    const auto row = read_time_.bind(day).bind(open.tenant).bind(job).next();
    if (!row) return row.error();
    if (*row) rest[day] = {.held_s = 0, .trained_s = read_time_.number(0)};
    read_time_.reset();
  }
  return write_time(open.tenant, job, rest);
}

Status UsageTables::write_jobs() {
  for (const auto& [job, about] : fresh_.jobs) {
    if (auto status = put_job_.bind(job).bind(about.name).bind(about.user).run(); !status) {
      return status;
    }
    for (const std::string& label : about.labels) {
      if (auto status = put_label_.bind(job).bind(label).run(); !status) return status;
    }
  }
  return ok_status();
}

Status UsageTables::write_meters() {
  for (const auto& [job, open] : fresh_.meters) {
    const std::string record = compact_json(open.meter.to_json());
    auto status = open.meter.over() ? drop_open_.bind(job).run()
                                    : put_open_.bind(job).bind(open.tenant).bind(record).run();
    if (!status) return status;
  }
  return ok_status();
}

Status UsageTables::write(std::int64_t last_seq) {
  fresh_.totals.clear();
  if (auto status = write_jobs(); !status) return status;
  for (const auto& [key, days] : fresh_.added) {
    if (auto status = write_time(key.first, key.second, days); !status) return status;
  }
  for (const JobNumber job : fresh_.ordinary) {
    if (auto status = write_ordinary(job, fresh_.meters.at(job)); !status) return status;
  }
  for (const auto& [tenant, time] : fresh_.totals) {
    auto status = put_tenant_.bind(tenant).bind(time.held_s).bind(time.trained_s).run();
    if (!status) return status;
  }
  if (auto status = write_meters(); !status) return status;
  return put_seq_.bind(last_seq).run();
}

void UsageTables::commit() {
  for (auto& [job, open] : fresh_.meters) {
    if (open.meter.over()) {
      open_.erase(job);
    } else {
      open_[job] = std::move(open);
    }
  }
  for (const auto& [tenant, time] : fresh_.totals) {
    const auto [place, is_new] = place_in_totals_.try_emplace(tenant, totals_.size());
    if (is_new) totals_.emplace_back(tenant, DeviceTime{});
    totals_[place->second].second += time;
  }
  fresh_ = {};
}

std::vector<std::pair<std::string, DeviceTime>> UsageTables::totals(double now) const {
  std::vector<std::pair<std::string, DeviceTime>> sums = totals_;
  for (const auto& [job, open] : open_) {
    if (open.meter.held() == 0) continue;
    const auto place = place_in_totals_.find(open.tenant);
    std::size_t at = place == place_in_totals_.end() ? sums.size() : place->second;
    if (at == sums.size()) {
      // It has held devices since its first event, and nothing is recorded yet.
      const auto same =
          std::find_if(sums.begin(), sums.end(),
                       [&tenant = open.tenant](const auto& sum) { return sum.first == tenant; });
      at = static_cast<std::size_t>(same - sums.begin());
      if (same == sums.end()) sums.emplace_back(open.tenant, DeviceTime{});
    }
    for (const auto& [day, time] : open.meter.until(now)) sums[at].second += time;
  }
  return sums;
}

}  // namespace rubato::control
