#include "control/store_events.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_text.h"
#include "control/event_versions.h"
#include "control/store_schema.h"
#include "control/store_views.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestBody = 1 << 20;
constexpr int kDeepestBody = 32;
constexpr std::int64_t kSchemaWithVersions = 3;  // events have a version
constexpr std::int64_t kSchemaWithBase = 4;      // the beginning of the log can be folded

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

constexpr std::string_view kFirstColumns = "seq, at, type, job, tenant, body, '', '', 1";

std::string all_events(std::string_view columns) {
  return fmt::format("SELECT {} FROM events WHERE seq > ? ORDER BY seq LIMIT ?", columns);
}
std::string events_of_job() {
  return fmt::format(
      "SELECT {} FROM events INDEXED BY events_by_job WHERE job = ? AND seq > ? ORDER BY seq "
      "LIMIT ?",
      kEventColumns);
}
std::string events_of_tenant() {
  return fmt::format(
      "SELECT {} FROM events INDEXED BY events_by_tenant WHERE tenant = ? AND seq > ? ORDER BY seq "
      "LIMIT ?",
      kEventColumns);
}

Result<State> state_before_log(Database& database, std::int64_t schema) {
  if (schema < kSchemaWithBase) return State{};
  return StoreViews::read(database, StoreViews::Tables::kBase);
}

}  // namespace

Result<std::string> stored_body(Event& event) {
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

Result<Event> event_of_row(const Statement& row) {
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

Result<Statement> prepare_insert(Database& database) {
  return database.prepare(
      fmt::format("INSERT INTO events ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", kEventColumns));
}

Status insert_event(Statement& statement, const Event& event, const std::string& body) {
  statement.bind(event.seq).bind(event.at).bind(event.type).bind(event.job).bind(event.tenant);
  statement.bind(body).bind(event.by).bind(event.from).bind(std::int64_t{event.version});
  return statement.run();
}

Result<State> replay_events(Database& database, const std::string& path, std::int64_t schema,
                            const std::function<Status(const Event&, const State&)>& seen) {
  auto before = state_before_log(database, schema);
  if (!before) return Error{before.error().code, path + ": " + before.error().message};
  State state = std::move(*before);
  auto statement =
      database.prepare(all_events(schema >= kSchemaWithVersions ? kEventColumns : kFirstColumns));
  if (!statement) return statement.error();
  statement->bind(state.last_seq).bind(std::int64_t{-1});
  while (true) {
    const auto row = statement->next();
    if (!row) return row.error();
    if (!*row) return state;
    const auto event = event_of_row(*statement);
    const Status applied = event ? state.apply(*event) : Status(event.error());
    if (!applied) {
      return invalid_input(fmt::format("{}: event {} cannot be replayed: {}", path,
                                       state.last_seq + 1, applied.error().message));
    }
    if (!seen) continue;
    if (auto status = seen(*event, state); !status) return status.error();
  }
}

Result<std::unique_ptr<EventReader>> EventReader::open(const std::string& path) {
  auto database = Database::open(path);
  if (!database) return database.error();
  if (auto status = database->execute("PRAGMA query_only = ON"); !status) {
    return status.error();
  }
  auto all = database->prepare(all_events(kEventColumns));
  if (!all) return all.error();
  auto of_job = database->prepare(events_of_job());
  if (!of_job) return of_job.error();
  auto of_tenant = database->prepare(events_of_tenant());
  if (!of_tenant) return of_tenant.error();
  return std::unique_ptr<EventReader>(new EventReader(std::move(*database), std::move(*all),
                                                      std::move(*of_job), std::move(*of_tenant)));
}

Result<std::vector<Event>> EventReader::read(std::int64_t after, int limit, JobNumber job,
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
    auto event = event_of_row(statement);
    if (!event) {
      statement.reset();
      return event.error();
    }
    if (job == 0 || tenant.empty() || event->tenant == tenant) {
      events.push_back(std::move(*event));
    }
  }
}

}  // namespace rubato::control
