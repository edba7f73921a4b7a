#include "control/store_check.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <vector>

#include "control/store_events.h"
#include "control/store_schema.h"
#include "control/store_views.h"

namespace rubato::control {

namespace {

constexpr off_t kSmall = 64 << 20;  // bytes; checked in about 0.1 s

off_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

// A job as the log says, and as its row says.
Result<std::string> difference_of(const JobRecord& job, JobReader& rows) {
  const auto row = rows.stored_job(job.number);
  if (!row) return row.error();
  if (!*row) return fmt::format("{} is not in the tables", job_name_of(job.number));
  if (to_json(**row) == to_json(job)) return std::string();
  return fmt::format("the tables say something else about {}", job_name_of(job.number));
}

// `said` is what the log says; it has jobs at rest as well, which are checked one by one.
Result<std::string> difference_between(State said, const State& tables, JobReader& rows) {
  for (auto job = said.jobs.begin(); job != said.jobs.end();) {
    if (!at_rest(job->second)) {
      ++job;
      continue;
    }
    auto difference = difference_of(job->second, rows);
    if (!difference || !difference->empty()) return difference;
    job = said.jobs.erase(job);
  }
  return to_json(said) == to_json(tables)
             ? std::string()
             : std::string("the tables say something else about active jobs, tenants or settings");
}

}  // namespace

Status check_soundness(Database& database, const std::string& path, bool whole) {
  std::vector<std::string> checks{"PRAGMA quick_check(1)"};
  if (!whole && size_of(path) > kSmall) {
    checks.clear();
    const auto tables = database.read_integer(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'tenants', "
        "'reservations', 'settings', 'profiles', 'nodes')");
    if (!tables) return tables.error();
    for (const char* table : {"meta", "tenants", "reservations", "settings", "profiles", "nodes"}) {
      if (*tables == 6) checks.push_back(fmt::format("PRAGMA quick_check({})", table));
    }
  }
  for (const std::string& check : checks) {
    auto statement = database.prepare(check);
    if (!statement) return statement.error();
    const auto row = statement->next();
    if (!row) return row.error();
    if (*row && statement->text(0) == "ok") continue;
    return invalid_input(
        fmt::format("{}: the file is damaged and was left unchanged ({}); restore it "
                    "from a backup",
                    path, *row ? statement->text(0) : "?"));
  }
  return ok_status();
}

Result<CheckedLog> check_log(const std::string& path) {
  auto database = Database::open(path);
  if (!database) return database.error();
  if (auto status = database->execute("PRAGMA query_only = ON"); !status) return status.error();
  if (auto status = check_soundness(*database, path, true); !status) return status.error();
  auto said = replay_events(*database, path, current_schema_version());
  if (!said) return said.error();
  const auto views = StoreViews::make(*database);
  if (!views) return views.error();
  const auto tables = views->read(*database);
  if (!tables) return tables.error();
  const auto rows = JobReader::open(path);
  if (!rows) return rows.error();
  CheckedLog checked;
  const auto known = database->read_integer(
      fmt::format("SELECT count(*) FROM jobs WHERE number >= {}", said->folded_below));
  const auto jobs = database->read_integer("SELECT count(*) FROM jobs");
  const auto events = database->read_integer("SELECT count(*) FROM events");
  if (!known || !jobs || !events) return invalid_input(path + ": cannot be counted");
  checked.jobs = *jobs;
  checked.events = *events;
  checked.folded = said->last_seq - *events;
  std::int64_t expected = 0;
  for (const auto& [number, job] : said->jobs) expected += number >= said->folded_below ? 1 : 0;
  std::int64_t ended_jobs = 0;
  for (const auto& [phase, count] : said->ended_jobs) ended_jobs += count;
  std::int64_t active = 0;
  for (const auto& [number, job] : said->jobs) active += ended(job.phase) ? 0 : 1;
  if (expected != *known || active + ended_jobs != *jobs) {
    checked.difference =
        fmt::format("the tables have {} jobs, and the log says {}", *jobs, active + ended_jobs);
    return checked;
  }
  auto difference = difference_between(std::move(*said), *tables, **rows);
  if (!difference) return difference.error();
  checked.difference = std::move(*difference);
  return checked;
}

}  // namespace rubato::control
