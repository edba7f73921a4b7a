#include "control/store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/crash_point.h"
#include "base/file.h"
#include "control/event_versions.h"
#include "control/sqlite.h"
#include "control/state_delta.h"
#include "control/state_folder.h"
#include "control/store_check.h"
#include "control/store_events.h"
#include "control/store_retention.h"
#include "control/store_schema.h"
#include "control/store_views.h"

namespace rubato::control {

namespace {

std::string database_path(const std::string& folder) { return folder + "/rubato.db"; }

// Everything that an open store consists of.
struct StoreParts {
  FolderLock lock;
  std::string identity;
  double last_at = 0;
  Database database;
  StoreViews views;
  UsageTables usage;
  StoreRetention retention;
  Statement insert;
  Witness* witness = nullptr;
  State state;
  std::unique_ptr<EventReader> events;
  std::unique_ptr<JobReader> jobs;
  std::unique_ptr<UsageReader> usage_reader;
};

// The job of an event; null: it has none.
const JobRecord* job_of(const State& state, const Event& event) {
  const auto found = state.jobs.find(event.job);
  return found == state.jobs.end() ? nullptr : &found->second;
}

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(StoreParts parts) : parts_(std::move(parts)) {}

  Status append(std::span<Event> events) override {
    if (events.empty()) return ok_status();
    StateDelta delta(parts_.state, parts_.jobs.get());
    parts_.usage.roll_back();
    std::vector<std::string> bodies;
    bodies.reserve(events.size());
    std::int64_t seq = parts_.state.last_seq;
    for (Event& event : events) {
      auto body = stored_body(event);
      if (!body) return body.error();
      event.seq = ++seq;
      event.version = kEventVersion;
      if (auto status = delta.apply(event); !status) return status;
      parts_.usage.note(event, job_of(delta.after(), event));
      bodies.push_back(std::move(*body));
    }
    if (auto status = record(events, bodies, delta); !status) {
      static_cast<void>(parts_.database.execute("ROLLBACK"));
      return status;
    }
    for (const Event& event : events) parts_.last_at = std::max(parts_.last_at, event.at);
    const std::set<JobNumber> touched = delta.jobs();
    const WriteLock lock(state_lock_);
    std::move(delta).commit(parts_.state);
    parts_.usage.commit();
    parts_.state.keys.clear();  // they are in their table
    for (const JobNumber job : touched) note_rest(job);
    return ok_status();
  }

  const std::string& identity() const override { return parts_.identity; }
  double last_at() const override { return parts_.last_at; }
  const State& state() const override { return parts_.state; }
  SharedMutex& state_lock() const override { return state_lock_; }

  Result<std::vector<Event>> read_events(std::int64_t after, int limit, JobNumber job,
                                         const std::string& tenant) const override {
    return parts_.events->read(after, limit, job, tenant);
  }
  Result<EventPage> find_events(const EventQuery& query) const override {
    return parts_.events->find(query);
  }
  Result<UsageReport> usage(const UsageQuery& query) const override {
    return parts_.usage_reader->read(query);
  }
  std::vector<std::pair<std::string, DeviceTime>> usage_totals(double now) const override {
    return parts_.usage.totals(now);
  }
  JobReader& jobs() const override { return *parts_.jobs; }

  const std::set<JobNumber>& rested() const override { return rested_; }
  void let_go(JobNumber job) override {
    if (rested_.erase(job) == 0) return;
    const WriteLock lock(state_lock_);
    parts_.state.jobs.erase(job);
  }
  Result<bool> prune(const Retention& rule, double now, int most) override {
    return parts_.retention.prune(parts_.database, parts_.state, rule, now, most);
  }
  Result<std::vector<Removal>> removals(JobNumber after, int most) override {
    return parts_.retention.removals(after, most);
  }
  Status removal_done(JobNumber job) override { return parts_.retention.done(job); }

 private:
  Status record(std::span<const Event> events, std::span<const std::string> bodies,
                const StateDelta& delta) {
    if (auto status = parts_.database.execute("BEGIN IMMEDIATE"); !status) return status;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (auto status = insert_event(parts_.insert, events[i], bodies[i]); !status) return status;
    }
    if (auto status = parts_.views.write(delta); !status) return status;
    if (auto status = parts_.usage.write(events.back().seq); !status) return status;
    if (parts_.witness == nullptr) return parts_.database.execute("COMMIT");
    // As late as possible: everything else that can fail has not.
    if (auto status = parts_.witness->witness(events, bodies); !status) return status;
    crash_point("witnessed", events.front().type);
    auto status = parts_.database.execute("COMMIT");
    if (!status) parts_.witness->broken(status.error());
    return status;
  }

  void note_rest(JobNumber job) {
    const auto found = parts_.state.jobs.find(job);
    if (found != parts_.state.jobs.end() && at_rest(found->second)) {
      rested_.insert(job);
    } else {
      rested_.erase(job);
    }
  }

  StoreParts parts_;
  std::set<JobNumber> rested_;
  mutable SharedMutex state_lock_;
};

// Makes the accounts anew from the log.
Status rebuild_usage(Database& database, const std::string& path, UsageTables& usage) {
  constexpr std::int64_t kAtOnce = 10'000;  // events
  if (auto status = database.execute("BEGIN IMMEDIATE"); !status) return status;
  const auto rewrite = [&]() -> Status {
    const auto state = replay_events(database, path, current_schema_version(),
                                     [&](const Event& event, const State& after) -> Status {
                                       usage.note(event, job_of(after, event));
                                       if (event.seq % kAtOnce != 0) return ok_status();
                                       if (auto status = usage.write(event.seq); !status) {
                                         return status;
                                       }
                                       usage.commit();
                                       return ok_status();
                                     });
    if (!state) return state.error();
    if (auto status = usage.write(state->last_seq); !status) return status;
    if (auto status = database.execute("COMMIT"); !status) return status;
    usage.commit();
    return ok_status();
  };
  auto status = rewrite();
  if (!status) static_cast<void>(database.execute("ROLLBACK"));
  return status;
}

Status rebuild_views(Database& database, const std::string& path, StoreViews& views) {
  const auto state = replay_events(database, path, current_schema_version());
  if (!state) return state.error();
  if (auto status = database.execute("BEGIN IMMEDIATE"); !status) return status;
  auto status = views.rewrite(database, *state);
  if (status) status = database.execute("COMMIT");
  if (!status) static_cast<void>(database.execute("ROLLBACK"));
  return status;
}

// The state in the tables, which are made anew if they do not match the log.
Result<State> current_state(Database& database, const std::string& path, StoreViews& views) {
  const auto last = database.read_integer(
      "SELECT coalesce(max(seq), (SELECT value FROM meta WHERE name = 'base_seq')) FROM events");
  if (!last) return last.error();
  auto state = views.read(database);
  if (state && state->last_seq == *last) return state;
  if (auto status = rebuild_views(database, path, views); !status) return status.error();
  state = views.read(database);
  if (!state) return Error{state.error().code, path + ": " + state.error().message};
  return state;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& folder, Witness* witness) {
  auto lock = FolderLock::take(folder);
  if (!lock) return lock.error();
  const std::string path = database_path(folder);
  if (auto status = make_private_file(path); !status) return status.error();
  auto database = Database::open(path);
  if (!database) return database.error();
  database->leave_log_alone(true);
  if (auto status = check_soundness(*database, path); !status) return status.error();
  const auto version = schema_version(*database, path);
  if (!version) return version.error();
  if (auto status = database->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
      !status) {
    return status.error();
  }
  if (auto status = migrate(*database, *version); !status) return status.error();

  auto views = StoreViews::make(*database);
  if (!views) return views.error();
  auto state = current_state(*database, path, *views);
  if (!state) return state.error();
  auto usage = UsageTables::open(*database, state->last_seq);
  if (!usage) return usage.error();
  if (usage->stale()) {
    if (auto status = rebuild_usage(*database, path, *usage); !status) return status.error();
  }
  auto usage_reader = UsageReader::open(path);
  if (!usage_reader) return usage_reader.error();
  auto retention = StoreRetention::make(*database);
  if (!retention) return retention.error();
  auto insert = prepare_insert(*database);
  if (!insert) return insert.error();
  auto identity = database->read_text("SELECT value FROM meta WHERE name = 'identity'");
  if (!identity) return identity.error();
  const auto last_at = database->read_number("SELECT at FROM events ORDER BY seq DESC LIMIT 1");
  if (!last_at) return last_at.error();
  auto events = EventReader::open(path);
  if (!events) return events.error();
  auto jobs = JobReader::open(path);
  if (!jobs) return jobs.error();
  database->leave_log_alone(false);
  // From now on the daemon's loop waits for it. Only a foreign program can hold the lock; then the
  // daemon is read-only and tries again (live_controller_store.cpp).
  if (auto status = database->execute("PRAGMA busy_timeout = 50"); !status) return status.error();
  return std::unique_ptr<Store>(new SqliteStore({.lock = std::move(*lock),
                                                 .identity = std::move(*identity),
                                                 .last_at = *last_at,
                                                 .database = std::move(*database),
                                                 .views = std::move(*views),
                                                 .usage = std::move(*usage),
                                                 .retention = std::move(*retention),
                                                 .insert = std::move(*insert),
                                                 .witness = witness,
                                                 .state = std::move(*state),
                                                 .events = std::move(*events),
                                                 .jobs = std::move(*jobs),
                                                 .usage_reader = std::move(*usage_reader)}));
}

Result<State> Store::replay(const std::string& folder) {
  const std::string path = database_path(folder);
  if (!is_file(path)) return Error{ErrorCode::kNotFound, path + ": no such file"};
  auto database = Database::open(path);
  if (!database) return database.error();
  database->leave_log_alone(true);
  // One moment for the base and the events, also while a daemon folds.
  if (auto status = database->execute("PRAGMA query_only = ON; BEGIN"); !status) {
    return status.error();
  }
  const auto version = schema_version(*database, path);
  if (!version) return version.error();
  return *version == 0 ? State{} : replay_events(*database, path, *version);
}

Result<CheckedLog> Store::check(const std::string& folder) {
  const std::string path = database_path(folder);
  if (!is_file(path)) return Error{ErrorCode::kNotFound, path + ": no such file"};
  if (const auto migrated = open(folder); !migrated) return migrated.error();
  return check_log(path);
}

Status Store::copy(const std::string& folder, const std::string& file) {
  const std::string path = database_path(folder);
  if (!is_file(path)) return Error{ErrorCode::kNotFound, path + ": no such file"};
  if (is_file(file)) return invalid_input(file + ": exists already; give the name of a new file");
  auto database = Database::open(path);
  if (!database) return database.error();
  database->leave_log_alone(true);
  if (auto status = make_private_file(file); !status) return status;
  auto statement = database->prepare("VACUUM INTO ?");
  if (!statement) return statement.error();
  return statement->bind(file).run();
}

}  // namespace rubato::control
