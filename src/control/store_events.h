// The rows of the event log: how an event is written, read and replayed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "control/event_query.h"
#include "control/sqlite.h"
#include "control/state.h"

namespace rubato::control {

// The columns of a row, in the order that event_of_row() and the statement of insert_event()
// expect.
inline constexpr std::string_view kEventColumns =
    "seq, at, type, job, tenant, body, given_by, given_from, version";

// The body as it is stored. Infinities become null in the event as well. An error for a body that
// is too large, nested too deeply or not UTF-8.
Result<std::string> stored_body(Event& event);
Result<Event> event_of_row(const Statement& row);
Result<Statement> prepare_insert(Database& database);
Status insert_event(Statement& statement, const Event& event, const std::string& body);

// Applies all events of the log one by one and returns the resulting state. It starts with the
// state into which earlier events were folded. `schema` is the version of the database's tables.
// `seen` is called after each event with the state that it led to.
Result<State> replay_events(
    Database& database, const std::string& path, std::int64_t schema,
    const std::function<Status(const Event&, const State&)>& seen = nullptr);

// Reads events. Thread-safe, and safe while the writer appends.
class EventReader {
 public:
  static Result<std::unique_ptr<EventReader>> open(const std::string& path);
  // See Store::read_events.
  Result<std::vector<Event>> read(std::int64_t after, int limit, JobNumber job,
                                  const std::string& tenant);
  // See Store::find_events.
  Result<EventPage> find(const EventQuery& query);

 private:
  EventReader(Database database, Statement all, Statement of_job, Statement of_tenant)
      : database_(std::move(database)),
        all_(std::move(all)),
        of_job_(std::move(of_job)),
        of_tenant_(std::move(of_tenant)) {}

  struct Range {
    std::int64_t above = 0;
    std::int64_t up_to = 0;
  };
  // The numbers that the query's numbers and times leave.
  Result<Range> range_of(const EventQuery& query) RUBATO_REQUIRES(mutex_);
  Result<std::int64_t> last_before(double time) RUBATO_REQUIRES(mutex_);

  Mutex mutex_;
  Database database_;  // outlives its statements
  Statement all_ RUBATO_GUARDED_BY(mutex_);
  Statement of_job_ RUBATO_GUARDED_BY(mutex_);
  Statement of_tenant_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::control
