#include "control/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/file.h"
#include "base/json_text.h"
#include "base/mutex.h"
#include "control/event_versions.h"
#include "control/sqlite.h"
#include "control/state_delta.h"
#include "control/state_folder.h"
#include "control/store_schema.h"
#include "control/store_views.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestBody = 1 << 20;
constexpr int kDeepestBody = 32;
constexpr std::int64_t kSchemaWithVersions = 3;  // events have a version

std::string database_path(const std::string& folder) { return folder + "/rubato.db"; }

// JSON text has no infinities, so they become null now instead of when they are read back. False if
// the value is nested too deeply for the library, which writes recursively.
bool make_storable(json& value, int depth) {
  if (depth > kDeepestBody) return false;
  if (value.is_number_float() && !std::isfinite(value.get<double>())) value = nullptr;
  if (!value.is_structured()) return true;
  for (json& child : value) {
    if (!make_storable(child, depth + 1)) return false;
  }
  return true;
}

Result<std::string> body_text(Event& event) {
  if (!make_storable(event.body, 0)) {
    return invalid_input(fmt::format("event '{}': its body is nested too deeply", event.type));
  }
  try {
    std::string text = event.body.dump();
    if (text.size() <= kLongestBody) return text;
    return invalid_input(
        fmt::format("event '{}': its body is larger than {} bytes", event.type, kLongestBody));
  } catch (const json::type_error&) {
    return invalid_input(
        fmt::format("event '{}': its body contains text that is not UTF-8", event.type));
  }
}

// `row` begins with the columns of kColumns.
Result<Event> event_of(const Statement& row) {
  Event event{.seq = row.integer(0),
              .at = row.number(1),
              .type = std::string(row.text(2)),
              .job = row.integer(3),
              .tenant = std::string(row.text(4)),
              .by = std::string(row.text(6)),
              .from = std::string(row.text(7)),
              .version = static_cast<int>(row.integer(8))};
  event.body = parse_json(row.text(5));
  if (event.body.is_discarded()) {
    return invalid_input(fmt::format("event {}: its body is not JSON", event.seq));
  }
  if (auto status = upgrade_event(event); !status) return status.error();
  return event;
}

constexpr std::string_view kColumns =
    "seq, at, type, job, tenant, body, given_by, given_from, version";
constexpr std::string_view kFirstColumns = "seq, at, type, job, tenant, body, '', '', 1";

std::string all_events(std::string_view columns) {
  return fmt::format("SELECT {} FROM events WHERE seq > ? ORDER BY seq LIMIT ?", columns);
}
std::string events_of_job() {
  return fmt::format(
      "SELECT {} FROM events INDEXED BY events_by_job WHERE job = ? AND seq > ? ORDER BY seq "
      "LIMIT ?",
      kColumns);
}
std::string events_of_tenant() {
  return fmt::format(
      "SELECT {} FROM events INDEXED BY events_by_tenant WHERE tenant = ? AND seq > ? ORDER BY seq "
      "LIMIT ?",
      kColumns);
}

// Applies all events one by one and returns the resulting state. `seen` is called after each.
Result<State> replay_events(
    Database& database, const std::string& path, std::int64_t schema,
    const std::function<Status(const Event&, const State&)>& seen = nullptr) {
  State state;
  auto statement =
      database.prepare(all_events(schema >= kSchemaWithVersions ? kColumns : kFirstColumns));
  if (!statement) return statement.error();
  statement->bind(std::int64_t{0}).bind(std::int64_t{-1});
  while (true) {
    const auto row = statement->next();
    if (!row) return row.error();
    if (!*row) return state;
    const auto event = event_of(*statement);
    const Status applied = event ? state.apply(*event) : Status(event.error());
    if (!applied) {
      return invalid_input(fmt::format("{}: event {} cannot be replayed: {}", path,
                                       state.last_seq + 1, applied.error().message));
    }
    if (!seen) continue;
    if (auto status = seen(*event, state); !status) return status.error();
  }
}

// Reads events. Thread-safe, and safe while the writer appends.
class EventReader {
 public:
  static Result<std::unique_ptr<EventReader>> open(const std::string& path) {
    auto database = Database::open(path);
    if (!database) return database.error();
    if (auto status = database->execute("PRAGMA query_only = ON"); !status) {
      return status.error();
    }
    auto all = database->prepare(all_events(kColumns));
    if (!all) return all.error();
    auto of_job = database->prepare(events_of_job());
    if (!of_job) return of_job.error();
    auto of_tenant = database->prepare(events_of_tenant());
    if (!of_tenant) return of_tenant.error();
    return std::unique_ptr<EventReader>(new EventReader(std::move(*database), std::move(*all),
                                                        std::move(*of_job), std::move(*of_tenant)));
  }

  Result<std::vector<Event>> read(std::int64_t after, int limit, JobNumber job,
                                  const std::string& tenant) {
    const MutexLock lock(mutex_);
    Statement& statement = job != 0 ? of_job_ : tenant.empty() ? all_ : of_tenant_;
    if (job != 0) {
      statement.bind(job);
    } else if (!tenant.empty()) {
      statement.bind(tenant);
    }
    // A job has only one tenant. If both are given, all or none of the job's events match.
    statement.bind(after).bind(std::int64_t{limit});
    std::vector<Event> events;
    while (true) {
      const auto row = statement.next();
      if (!row) return row.error();
      if (!*row) return events;
      auto event = event_of(statement);
      if (!event) {
        statement.reset();
        return event.error();
      }
      if (job == 0 || tenant.empty() || event->tenant == tenant) {
        events.push_back(std::move(*event));
      }
    }
  }

 private:
  EventReader(Database database, Statement all, Statement of_job, Statement of_tenant)
      : database_(std::move(database)),
        all_(std::move(all)),
        of_job_(std::move(of_job)),
        of_tenant_(std::move(of_tenant)) {}

  Mutex mutex_;
  Database database_;  // outlives its statements
  Statement all_ RUBATO_GUARDED_BY(mutex_);
  Statement of_job_ RUBATO_GUARDED_BY(mutex_);
  Statement of_tenant_ RUBATO_GUARDED_BY(mutex_);
};

// The job of an event; null: it has none.
const JobRecord* job_of(const State& state, const Event& event) {
  const auto found = state.jobs.find(event.job);
  return found == state.jobs.end() ? nullptr : &found->second;
}

class SqliteStore final : public Store {
 public:
  SqliteStore(FolderLock lock, std::string identity, Database database, StoreViews views,
              UsageTables usage, Statement insert, State state, double last_at,
              std::unique_ptr<EventReader> reader, std::unique_ptr<UsageReader> usage_reader)
      : lock_(std::move(lock)),
        identity_(std::move(identity)),
        last_at_(last_at),
        database_(std::move(database)),
        views_(std::move(views)),
        usage_(std::move(usage)),
        insert_(std::move(insert)),
        state_(std::move(state)),
        reader_(std::move(reader)),
        usage_reader_(std::move(usage_reader)) {}

  Status append(std::span<Event> events) override {
    if (events.empty()) return ok_status();
    StateDelta delta(state_);
    usage_.roll_back();
    std::vector<std::string> bodies;
    bodies.reserve(events.size());
    std::int64_t seq = state_.last_seq;
    for (Event& event : events) {
      auto body = body_text(event);
      if (!body) return body.error();
      event.seq = ++seq;
      event.version = kEventVersion;
      if (auto status = delta.apply(event); !status) return status;
      usage_.note(event, job_of(delta.after(), event));
      bodies.push_back(std::move(*body));
    }
    if (auto status = record(events, bodies, delta); !status) {
      static_cast<void>(database_.execute("ROLLBACK"));
      return status;
    }
    for (const Event& event : events) last_at_ = std::max(last_at_, event.at);
    const WriteLock lock(state_lock_);
    std::move(delta).commit(state_);
    usage_.commit();
    return ok_status();
  }

  const std::string& identity() const override { return identity_; }
  double last_at() const override { return last_at_; }
  const State& state() const override { return state_; }
  SharedMutex& state_lock() const override { return state_lock_; }

  Result<std::vector<Event>> read_events(std::int64_t after, int limit, JobNumber job,
                                         const std::string& tenant) const override {
    return reader_->read(after, limit, job, tenant);
  }
  Result<UsageReport> usage(const UsageQuery& query) const override {
    return usage_reader_->read(query);
  }
  std::vector<std::pair<std::string, DeviceTime>> usage_totals(double now) const override {
    return usage_.totals(now);
  }

 private:
  Status record(std::span<const Event> events, std::span<const std::string> bodies,
                const StateDelta& delta) {
    if (auto status = database_.execute("BEGIN IMMEDIATE"); !status) return status;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Event& event = events[i];
      insert_.bind(event.seq).bind(event.at).bind(event.type).bind(event.job).bind(event.tenant);
      insert_.bind(bodies[i]).bind(std::int64_t{event.version}).bind(event.by).bind(event.from);
      if (auto status = insert_.run(); !status) return status;
    }
    if (auto status = views_.write(delta); !status) return status;
    if (auto status = usage_.write(events.back().seq); !status) return status;
    return database_.execute("COMMIT");
  }

  FolderLock lock_;
  const std::string identity_;
  double last_at_;
  Database database_;
  StoreViews views_;
  UsageTables usage_;
  Statement insert_;
  State state_;
  mutable SharedMutex state_lock_;
  std::unique_ptr<EventReader> reader_;
  std::unique_ptr<UsageReader> usage_reader_;
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
  const auto rewrite = [&]() -> Status {
    if (auto status = StoreViews::clear(database); !status) return status;
    if (auto status = views.write_all(*state); !status) return status;
    return database.execute("COMMIT");
  };
  auto status = rewrite();
  if (!status) static_cast<void>(database.execute("ROLLBACK"));
  return status;
}

// Detects damage before anything is written.
Status check_soundness(Database& database, const std::string& path) {
  auto statement = database.prepare("PRAGMA quick_check(1)");
  if (!statement) return statement.error();
  const auto row = statement->next();
  if (!row) return row.error();
  if (*row && statement->text(0) == "ok") return ok_status();
  return invalid_input(
      fmt::format("{}: the file is damaged and was left unchanged ({}); restore it "
                  "from a backup",
                  path, *row ? statement->text(0) : "?"));
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
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
  const auto last = database->read_integer("SELECT coalesce(max(seq), 0) FROM events");
  if (!last) return last.error();
  auto state = views->read(*database);
  if (!state || state->last_seq != *last) {
    if (auto status = rebuild_views(*database, path, *views); !status) return status.error();
    state = views->read(*database);
    if (!state) return Error{state.error().code, path + ": " + state.error().message};
  }
  auto usage = UsageTables::open(*database, *last);
  if (!usage) return usage.error();
  if (usage->stale()) {
    if (auto status = rebuild_usage(*database, path, *usage); !status) return status.error();
  }
  auto usage_reader = UsageReader::open(path);
  if (!usage_reader) return usage_reader.error();
  auto insert = database->prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return insert.error();
  auto identity = database->read_text("SELECT value FROM meta WHERE name = 'identity'");
  if (!identity) return identity.error();
  const auto last_at = database->read_number("SELECT at FROM events ORDER BY seq DESC LIMIT 1");
  if (!last_at) return last_at.error();
  auto reader = EventReader::open(path);
  if (!reader) return reader.error();
  database->leave_log_alone(false);
  // From now on the daemon's loop waits for it. Only a foreign program can hold the lock; then the
  // daemon is read-only and tries again (live_controller_store.cpp).
  if (auto status = database->execute("PRAGMA busy_timeout = 50"); !status) return status.error();
  return std::unique_ptr<Store>(
      new SqliteStore(std::move(*lock), std::move(*identity), std::move(*database),
                      std::move(*views), std::move(*usage), std::move(*insert), std::move(*state),
                      *last_at, std::move(*reader), std::move(*usage_reader)));
}

Result<State> Store::replay(const std::string& folder) {
  const std::string path = database_path(folder);
  if (!is_file(path)) return Error{ErrorCode::kNotFound, path + ": no such file"};
  auto database = Database::open(path);
  if (!database) return database.error();
  database->leave_log_alone(true);
  if (auto status = database->execute("PRAGMA query_only = ON"); !status) return status.error();
  const auto version = schema_version(*database, path);
  if (!version) return version.error();
  return *version == 0 ? State{} : replay_events(*database, path, *version);
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
