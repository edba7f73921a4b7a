#include <fmt/format.h>

#include "base/json_text.h"
#include "control/usage_tables.h"

namespace rubato::control {

namespace {

using nlohmann::json;

// The rows of the period, and what passed since the last event of jobs that hold devices (JSON:
// [tenant, job, held, trained]).
constexpr std::string_view kRowsOfPeriod = R"sql(
WITH period AS (
  SELECT tenant, job, held_s, trained_s FROM usage
  WHERE day BETWEEN ?1 AND ?2 AND (?3 = '' OR tenant = ?3)
  UNION ALL
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
         json_extract(value, '$[3]')
  FROM json_each(?4))
)sql";

std::string_view selection_by(UsageBy by) {
  switch (by) {
    case UsageBy::kTenant:
      return "SELECT tenant, '', '', count(DISTINCT job), sum(held_s), sum(trained_s) FROM period "
             "GROUP BY 1";
    case UsageBy::kUser:
      return "SELECT coalesce(user, ''), '', '', count(DISTINCT job), sum(held_s), sum(trained_s) "
             "FROM period LEFT JOIN usage_jobs USING (job) GROUP BY 1";
    case UsageBy::kJob:
      return "SELECT 'j' || job, coalesce(name, ''), tenant, 1, sum(held_s), sum(trained_s) FROM "
             "period LEFT JOIN usage_jobs USING (job) GROUP BY 1";
    case UsageBy::kLabel:
      return "SELECT coalesce(label, ''), '', '', count(DISTINCT job), sum(held_s), "
             "sum(trained_s) FROM period LEFT JOIN usage_labels USING (job) GROUP BY 1";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<UsageReader>> UsageReader::open(const std::string& path) {
  auto database = Database::open(path);
  if (!database) return database.error();
  if (auto status = database->execute("PRAGMA query_only = ON"); !status) return status.error();
  return std::unique_ptr<UsageReader>(new UsageReader(std::move(*database)));
}

Result<std::string> UsageReader::live_rows(const UsageQuery& query) {
  auto statement = database_.prepare("SELECT job, tenant, record FROM usage_open");
  if (!statement) return statement.error();
  json rows = json::array();
  while (true) {
    const auto row = statement->next();
    if (!row) return row.error();
    if (!*row) return compact_json(rows);
    const std::string tenant(statement->text(1));
    if (!query.tenant.empty() && tenant != query.tenant) continue;
    const auto meter = UsageMeter::from_json(parse_json(statement->text(2)));
    if (!meter) return meter.error();
    DeviceTime time;
    for (const auto& [day, passed] : meter->until(query.now)) {
      if (day >= query.from && day <= query.to) time += passed;
    }
    if (time.held_s > 0) {
      rows.push_back({tenant, statement->integer(0), time.held_s, time.trained_s});
    }
  }
}

Result<UsageReport> UsageReader::read_rows(const UsageQuery& query) {
  const auto live = live_rows(query);
  if (!live) return live.error();
  const auto bind = [&](Statement& statement) {
    statement.bind(query.from).bind(query.to).bind(query.tenant).bind(*live);
  };
  UsageReport report;
  auto sums = database_.prepare(
      fmt::format("{}SELECT count(DISTINCT job), coalesce(sum(held_s), 0), coalesce(sum(trained_s),"
                  " 0) FROM period",
                  kRowsOfPeriod));
  if (!sums) return sums.error();
  bind(*sums);
  const auto one = sums->next();
  if (!one) return one.error();
  if (*one) {
    report.jobs = sums->integer(0);
    report.total = {.held_s = sums->number(1), .trained_s = sums->number(2)};
  }
  auto groups = database_.prepare(fmt::format("{}{} ORDER BY 5 DESC, 1 LIMIT {}", kRowsOfPeriod,
                                              selection_by(query.by), query.limit + 1));
  if (!groups) return groups.error();
  bind(*groups);
  while (true) {
    const auto row = groups->next();
    if (!row) return row.error();
    if (!*row) return report;
    if (static_cast<int>(report.rows.size()) == query.limit) {
      report.more = true;
      return report;
    }
    report.rows.push_back({.key = std::string(groups->text(0)),
                           .name = std::string(groups->text(1)),
                           .tenant = std::string(groups->text(2)),
                           .jobs = groups->integer(3),
                           .time = {groups->number(4), groups->number(5)}});
  }
}

Result<UsageReport> UsageReader::read(const UsageQuery& query) {
  const MutexLock lock(mutex_);
  // One snapshot for both: what is recorded is not counted a second time as passing.
  if (auto status = database_.execute("BEGIN"); !status) return status.error();
  Result<UsageReport> report = read_rows(query);
  static_cast<void>(database_.execute("COMMIT"));
  return report;
}

}  // namespace rubato::control
