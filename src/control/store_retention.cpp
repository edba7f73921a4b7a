#include "control/store_retention.h"

#include <string_view>
#include <utility>

#include "control/store_views.h"

namespace rubato::control {

namespace {

constexpr std::int64_t kMostPending = 200;  // folders that wait to be removed
constexpr int kEventsPerJob = 10;           // an event is a tenth of the work that a job is

Result<std::int64_t> only_integer(Statement& statement) {
  const auto row = statement.next();
  if (!row) return row.error();
  const std::int64_t value = *row ? statement.integer(0) : 0;
  if (*row) statement.reset();
  return value;
}

}  // namespace

Result<StoreRetention> StoreRetention::make(Database& database) {
  auto fold = LogFold::make(database);
  if (!fold) return fold.error();
  StoreRetention retention(std::move(*fold));
  const std::pair<Statement*, std::string_view> statements[] = {
      {&retention.oldest_,
       "SELECT document, record FROM jobs INDEXED BY jobs_by_end WHERE rest = 1 AND kept = 1 "
       "ORDER BY ended_at LIMIT ?"},
      {&retention.mark_, "UPDATE jobs SET kept = 0 WHERE number = ?"},
      {&retention.note_, "INSERT OR REPLACE INTO removals VALUES (?, ?)"},
      {&retention.pending_, "SELECT count(*) FROM removals"},
      {&retention.removals_,
       "SELECT number, uid FROM removals WHERE number > ? ORDER BY number LIMIT ?"},
      {&retention.done_, "DELETE FROM removals WHERE number = ?"},
      {&retention.archived_, "SELECT value FROM meta WHERE name = 'archived'"},
      {&retention.add_archived_, "UPDATE meta SET value = value + ? WHERE name = 'archived'"},
      {&retention.old_keys_, "SELECT count(*) FROM (SELECT 1 FROM keys WHERE at < ? LIMIT 1)"},
      {&retention.forget_keys_,
       "DELETE FROM keys WHERE (tenant, key) IN "
       "(SELECT tenant, key FROM keys WHERE at < ? ORDER BY at LIMIT ?)"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return retention;
}

Result<bool> StoreRetention::prune(Database& database, const State& state, const Retention& rule,
                                   double now, int most) {
  bool more = false;
  if (rule.folders.limited()) {
    const auto archived = archive(database, state, rule.folders, now, most);
    if (!archived) return archived.error();
    more = *archived == most;
  }
  if (rule.events.limited()) {
    const double before = rule.events.age_s > 0 ? now - rule.events.age_s : 0;
    const int events = kEventsPerJob * most;
    const auto folded = fold_.fold(database, before, rule.events.count, state.last_seq, events);
    if (!folded) return folded.error();
    more = more || *folded == events;
  }
  const auto forgotten = forget_keys(now, most);
  if (!forgotten) return forgotten.error();
  return more || *forgotten == most;
}

Result<int> StoreRetention::archive(Database& database, const State& state, const KeepLimit& rule,
                                    double now, int most) {
  const auto pending = only_integer(pending_);
  if (!pending) return pending.error();
  if (*pending >= kMostPending) return 0;
  const auto archived = only_integer(archived_);
  if (!archived) return archived.error();
  std::int64_t kept = -*archived;
  for (const auto& [phase, count] : state.ended_jobs) kept += count;
  const std::int64_t too_many = rule.count > 0 ? kept - rule.count : 0;
  std::vector<Removal> jobs;
  oldest_.bind(std::int64_t{most});
  while (true) {
    const auto row = oldest_.next();
    if (!row) return row.error();
    if (!*row) break;
    const auto job = job_of_row(oldest_);
    const bool old = job && rule.age_s > 0 && job->ended_at < now - rule.age_s;
    if (!job || (!old && std::ssize(jobs) >= too_many)) {
      oldest_.reset();
      if (!job) return job.error();
      break;
    }
    jobs.push_back({.job = job->number, .uid = job->uid});
  }
  if (jobs.empty()) return 0;
  if (auto status = mark(database, jobs); !status) {
    static_cast<void>(database.execute("ROLLBACK"));
    return status.error();
  }
  return static_cast<int>(jobs.size());
}

Status StoreRetention::mark(Database& database, const std::vector<Removal>& jobs) {
  if (auto status = database.execute("BEGIN IMMEDIATE"); !status) return status;
  for (const Removal& each : jobs) {
    if (auto status = mark_.bind(each.job).run(); !status) return status;
    if (auto status = note_.bind(each.job).bind(each.uid).run(); !status) return status;
  }
  if (auto status = add_archived_.bind(std::ssize(jobs)).run(); !status) return status;
  return database.execute("COMMIT");
}

Result<int> StoreRetention::forget_keys(double now, int most) {
  const double before = now - kKeyLasts;
  old_keys_.bind(before);
  const auto some = only_integer(old_keys_);
  if (!some) return some.error();
  if (*some == 0) return 0;
  if (auto status = forget_keys_.bind(before).bind(std::int64_t{most}).run(); !status) {
    return status.error();
  }
  return most;
}

Result<std::vector<Removal>> StoreRetention::removals(JobNumber after, int most) {
  std::vector<Removal> found;
  removals_.bind(after).bind(std::int64_t{most});
  while (true) {
    const auto row = removals_.next();
    if (!row) return row.error();
    if (!*row) return found;
    found.push_back({.job = removals_.integer(0), .uid = std::string(removals_.text(1))});
  }
}

Status StoreRetention::done(JobNumber job) { return done_.bind(job).run(); }

}  // namespace rubato::control
