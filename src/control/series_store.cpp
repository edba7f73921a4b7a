#include "control/series_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/json_text.h"
#include "control/json_fields.h"
#include "control/live_cluster.h"
#include "control/series_tables.h"

namespace rubato::control {

namespace {

constexpr double kDay = 86'400;
constexpr double kKeepDays = 31 * kDay;
constexpr double kCleanEvery = 60;
constexpr double kShortestGap = 1;

struct Level {
  std::int64_t step_s;
  double keep_s;
};
constexpr std::array<Level, 3> kLevels{{{5, 7200}, {60, 2 * kDay}, {600, kKeepDays}}};

nlohmann::json parsed_list(std::string_view text) {
  nlohmann::json list = parse_json(text);
  return list.is_array() ? list : nlohmann::json::array();
}

}  // namespace

Result<std::unique_ptr<SeriesStore>> SeriesStore::open(const std::string& folder,
                                                       const std::string& log,
                                                       std::int64_t last_seq) {
  const std::string path = folder + "/series.db";
  auto database = open_series_tables(path);
  if (!database) return database.error();
  std::unique_ptr<SeriesStore> store(new SeriesStore(std::move(*database)));
  const MutexLock lock(store->mutex_);
  if (auto status = store->prepare(); !status) return status.error();
  if (auto status = store->begin_log(log, last_seq); !status) return status.error();
  return store;
}

Status SeriesStore::prepare() {
  const std::vector<std::pair<Statement*, std::string>> all{
      {&put_sample_,
       fmt::format("INSERT INTO series (step, at, samples, {}, {}) VALUES (?, ?, 1, {}, {}) "
                   "ON CONFLICT (step, at) DO UPDATE SET {}, {}, samples = samples + 1",
                   columns_with(kSeriesColumns, "{name}"), columns_with(kUseColumns, "{name}"),
                   columns_with(kSeriesColumns, "?"), columns_with(kUseColumns, "?"),
                   columns_with(kSeriesColumns,
                                "{name} = ({name} * samples + excluded.{name}) / (samples + 1)"),
                   columns_with(
                       kUseColumns,
                       "{name} = CASE WHEN excluded.{name} IS NULL THEN {name} WHEN {name} IS NULL "
                       "THEN excluded.{name} ELSE ({name} * samples + excluded.{name}) / (samples "
                       "+ 1) END"))},
      {&put_point_, "INSERT OR REPLACE INTO points VALUES (?, ?, ?)"},
      {&put_job_, "INSERT OR REPLACE INTO point_jobs VALUES (?, ?)"},
      {&halve_,
       "DELETE FROM points WHERE job = ?1 AND at IN (SELECT at FROM (SELECT at, row_number() OVER "
       "(ORDER BY at) AS place FROM points WHERE job = ?1) WHERE place % 2 = 0)"},
      {&measure_,
       "SELECT count(*), coalesce(min(at), 0), coalesce(max(at), 0) FROM points WHERE job = ?"},
      {&end_span_, "UPDATE spans SET until = max(?, since) WHERE job = ? AND until = 0"},
      {&begin_span_, "INSERT INTO spans VALUES (?, ?, ?, 0)"},
      {&drop_job_, "DELETE FROM point_jobs WHERE job = ?"},
      {&drop_points_, "DELETE FROM points WHERE job = ?"},
      {&put_nodes_, "INSERT INTO fleets VALUES (?, ?)"},
      {&reserve_, "INSERT OR REPLACE INTO reservations VALUES (?, ?, ?, ?, 0)"},
      {&release_, "UPDATE reservations SET ended = max(?, since) WHERE number = ?"},
      {&put_seen_, "INSERT OR REPLACE INTO meta VALUES ('seen', ?)"}};
  for (const auto& [statement, sql] : all) {
    auto made = database_.prepare(sql);
    if (!made) return made.error();
    *statement = std::move(*made);
  }
  return ok_status();
}

Status SeriesStore::begin_log(const std::string& log, std::int64_t last_seq) {
  const auto known = database_.read_integer(
      fmt::format("SELECT count(*) FROM meta WHERE name = 'log' AND value = '{}'", log));
  if (!known) return known.error();
  const auto seen =
      database_.read_integer("SELECT coalesce(max(value), 0) FROM meta WHERE name = 'seen'");
  if (!seen) return seen.error();
  if (*known > 0 && *seen <= last_seq) {
    seen_ = *seen;
    return ok_status();
  }
  return database_.execute(
      fmt::format("BEGIN IMMEDIATE; DELETE FROM spans; DELETE FROM fleets; DELETE FROM "
                  "reservations; DELETE FROM "
                  "points; DELETE FROM point_jobs; DELETE FROM meta; INSERT INTO meta VALUES "
                  "('log', '{}'), ('seen', 0); COMMIT",
                  log));
}

Status SeriesStore::end_transaction(Status written) {
  if (written) written = database_.execute("COMMIT");
  if (!written) static_cast<void>(database_.execute("ROLLBACK"));
  return written;
}

Status SeriesStore::add(std::span<const ClusterSample> samples, std::span<const JobPoint> points) {
  if (samples.empty() && points.empty()) return ok_status();
  const MutexLock lock(mutex_);
  if (auto status = database_.execute("BEGIN IMMEDIATE"); !status) return status;
  auto added = end_transaction(put_all(samples, points));
  if (!added) densities_.clear();  // they are measured again
  return added;
}

Status SeriesStore::put_all(std::span<const ClusterSample> samples,
                            std::span<const JobPoint> points) {
  for (const ClusterSample& sample : samples) {
    if (auto status = put_sample(sample); !status) return status;
  }
  for (const JobPoint& point : points) {
    if (auto status = put_point(point); !status) return status;
  }
  if (samples.empty() || samples.back().at < next_cleaning_) return ok_status();
  next_cleaning_ = samples.back().at + kCleanEvery;
  return forget_old(samples.back().at);
}

Status SeriesStore::put_sample(const ClusterSample& sample) {
  for (const Level& level : kLevels) {
    const auto at = static_cast<std::int64_t>(sample.at) / level.step_s * level.step_s;
    put_sample_.bind(level.step_s).bind(at);
    for (const double value : sample.values) put_sample_.bind(std::isfinite(value) ? value : 0.0);
    for (const double value : sample.use) put_sample_.bind(value);  // NaN becomes NULL
    if (auto status = put_sample_.run(); !status) return status;
  }
  return ok_status();
}

Result<SeriesStore::Density> SeriesStore::density_of(JobNumber job) {
  const auto known = densities_.find(job);
  if (known != densities_.end()) return known->second;
  const auto row = measure_.bind(job).next();
  if (!row) return row.error();
  Density density{.count = static_cast<int>(measure_.integer(0)),
                  .gap_s = kShortestGap,
                  .last_at = measure_.number(2)};
  const double length = measure_.number(2) - measure_.number(1);
  measure_.reset();
  while (density.gap_s * kMostPoints < length) density.gap_s *= 2;
  return density;
}

Status SeriesStore::put_point(const JobPoint& point) {
  const auto known = density_of(point.job);
  if (!known) return known.error();
  Density density = *known;
  if (density.count == 0 || point.at - density.last_at >= density.gap_s * 0.9) {
    const std::string body = compact_json(to_json(point));
    if (auto status = put_point_.bind(point.job).bind(point.at).bind(body).run(); !status) {
      return status;
    }
    if (auto status = put_job_.bind(point.job).bind(point.at).run(); !status) return status;
    density.last_at = point.at;
    if (++density.count >= kMostPoints) {
      if (auto status = halve_.bind(point.job).run(); !status) return status;
      density.count = (density.count + 1) / 2;
      density.gap_s *= 2;
    }
  }
  densities_[point.job] = density;
  return ok_status();
}

Status SeriesStore::forget_old(double now) {
  densities_.clear();  // of jobs that have ended; the others are measured again
  std::string sql;
  for (const Level& level : kLevels) {
    sql += fmt::format("DELETE FROM series WHERE step = {} AND at < {};", level.step_s,
                       static_cast<std::int64_t>(now - level.keep_s));
  }
  sql += fmt::format(
      "DELETE FROM spans WHERE until > 0 AND until < {0};"
      "DELETE FROM reservations WHERE ended > 0 AND ended < {0};"
      "DELETE FROM fleets WHERE at < (SELECT max(at) FROM fleets WHERE at <= {0});"
      "DELETE FROM points WHERE job IN (SELECT job FROM point_jobs WHERE last_at < {0} UNION "
      "SELECT job FROM (SELECT job FROM point_jobs ORDER BY last_at DESC LIMIT -1 OFFSET {1}));"
      "DELETE FROM point_jobs WHERE last_at < {0} OR job IN (SELECT job FROM point_jobs ORDER BY "
      "last_at DESC LIMIT -1 OFFSET {1})",
      now - kKeepDays, kMostJobs);
  return database_.execute(sql);
}

Status SeriesStore::note(std::span<const Event> events) {
  if (events.empty()) return ok_status();
  const MutexLock lock(mutex_);
  if (auto status = database_.execute("BEGIN IMMEDIATE"); !status) return status;
  auto noted = end_transaction(note_all(events));
  if (noted) seen_ = events.back().seq;
  return noted;
}

Status SeriesStore::note_all(std::span<const Event> events) {
  for (const Event& event : events) {
    if (auto status = note_event(event); !status) return status;
  }
  return put_seen_.bind(events.back().seq).run();
}

Status SeriesStore::note_event(const Event& event) {
  if (event.type == "held" || event.type == "removed") {
    if (auto status = end_span_.bind(event.at).bind(event.job).run(); !status) return status;
    if (event.type == "removed") {
      if (auto status = drop_points_.bind(event.job).run(); !status) return status;
      return drop_job_.bind(event.job).run();
    }
    const int devices = event.body.value("devices", 0);
    if (devices == 0) return ok_status();
    const auto nodes = event.body.find("nodes");
    const std::string text = compact_json(
        nodes == event.body.end() ? placement_json(unnamed_placement(devices)) : *nodes);
    return begin_span_.bind(event.job).bind(text).bind(event.at).run();
  }
  if (event.type == "reserved" || event.type == "released") return note_reservation(event);
  if (event.type != "started" && event.type != "nodes") return ok_status();
  const std::string text = compact_json(nodes_json(nodes_of_event(event.body)));
  return put_nodes_.bind(event.at).bind(text).run();
}

Status SeriesStore::note_reservation(const Event& event) {
  const std::int64_t number = whole_in(event.body, "number");
  if (event.type == "released") return release_.bind(event.at).bind(number).run();
  reserve_.bind(number).bind(whole_in(event.body, "devices")).bind(event.at);
  return reserve_.bind(number_in(event.body, "until")).run();
}

std::int64_t SeriesStore::seen() const {
  const MutexLock lock(mutex_);
  return seen_;
}

Result<Series> SeriesStore::read(const SeriesQuery& query) const {
  constexpr double kPeriods = 500;
  const double wanted = query.step > 0 ? static_cast<double>(query.step)
                                       : std::max(1.0, (query.to - query.from) / kPeriods);
  const MutexLock lock(mutex_);
  const auto newest = database_.read_integer("SELECT coalesce(max(at), 0) FROM series");
  if (!newest) return newest.error();
  // The finest level that goes back far enough and is not finer than needed.
  std::size_t best = 0;
  while (best + 1 < kLevels.size() &&
         (query.from < static_cast<double>(*newest) - kLevels[best].keep_s ||
          static_cast<double>(kLevels[best + 1].step_s) <= wanted)) {
    ++best;
  }
  const std::int64_t base = kLevels[best].step_s;
  Series series;
  series.step = std::max(base, static_cast<std::int64_t>(wanted) / base * base);
  auto rows = database_.prepare(fmt::format(
      "SELECT at / {0} * {0}, {1}, {3} FROM series WHERE step = {2} AND at > ? AND at <= ? "
      "GROUP BY at / {0} ORDER BY at LIMIT 20000",
      series.step, columns_with(kSeriesColumns, "sum({name} * samples) / sum(samples)"), base,
      columns_with(kUseColumns,
                   "coalesce(sum({name} * samples) / sum(CASE WHEN {name} IS NULL THEN "
                   "NULL ELSE samples END), -1)")));
  if (!rows) return rows.error();
  rows->bind(query.from - static_cast<double>(series.step)).bind(query.to);
  for (;;) {
    const auto row = rows->next();
    if (!row) return row.error();
    if (!*row) return series;
    series.at.push_back(rows->number(0));
    for (std::size_t i = 0; i < series.columns.size(); ++i) {
      series.columns[i].push_back(rows->number(static_cast<int>(i) + 1));
    }
    for (std::size_t i = 0; i < series.use.size(); ++i) {
      const double value = rows->number(static_cast<int>(series.columns.size() + i) + 1);
      series.use[i].push_back(value < 0 ? kUnknownUse : value);
    }
  }
}

Result<std::vector<JobPoint>> SeriesStore::points(JobNumber job) const {
  const MutexLock lock(mutex_);
  auto rows = database_.prepare("SELECT body FROM points WHERE job = ? ORDER BY at");
  if (!rows) return rows.error();
  rows->bind(job);
  std::vector<JobPoint> points;
  for (;;) {
    const auto row = rows->next();
    if (!row) return row.error();
    if (!*row) return points;
    points.push_back(point_from(parse_json(rows->text(0))));
    points.back().job = job;
  }
}

Result<DevicesThen> SeriesStore::devices(double at) const {
  const MutexLock lock(mutex_);
  DevicesThen then{.at = at};
  auto fleet = database_.prepare(
      "SELECT nodes FROM fleets WHERE at <= ? ORDER BY at DESC, rowid DESC LIMIT 1");
  if (!fleet) return fleet.error();
  const auto found = fleet->bind(at).next();
  if (!found) return found.error();
  if (*found) then.nodes = nodes_of_event({{"nodes", parsed_list(fleet->text(0))}});
  auto reserved = database_.prepare(
      "SELECT number, devices, since, until FROM reservations WHERE since <= ?1 AND "
      "(ended = 0 OR ended > ?1) ORDER BY number");
  if (!reserved) return reserved.error();
  reserved->bind(at);
  for (;;) {
    const auto row = reserved->next();
    if (!row) return row.error();
    if (!*row) break;
    then.reservations.push_back({.number = reserved->integer(0),
                                 .devices = static_cast<int>(reserved->integer(1)),
                                 .from = reserved->number(2),
                                 .until = reserved->number(3)});
  }
  auto spans = database_.prepare(
      "SELECT job, nodes, since, until FROM spans WHERE since <= ?1 AND until = 0 UNION ALL "
      "SELECT job, nodes, since, until FROM spans WHERE since <= ?1 AND until > ?1 "
      "ORDER BY since, job");
  if (!spans) return spans.error();
  spans->bind(at);
  for (;;) {
    const auto row = spans->next();
    if (!row) return row.error();
    if (!*row) return then;
    auto nodes = placement_from_json(parsed_list(spans->text(1)));
    if (!nodes) continue;
    then.spans.push_back({.job = spans->integer(0),
                          .nodes = std::move(*nodes),
                          .since = spans->number(2),
                          .until = spans->number(3)});
  }
}

}  // namespace rubato::control
