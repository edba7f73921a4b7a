// The daemon's durable storage: an append-only event log in SQLite (WAL) and the State derived from
// it. There is one process and one writer. An append is durable (synced) when it returns; events of
// several callers are committed together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_mutex.h"
#include "control/state.h"
#include "control/usage_tables.h"

namespace rubato::control {

class Store {
 public:
  // Opens or creates FOLDER/rubato.db (0600; the folder 0700) and takes the lock, which keeps a
  // second daemon out of the folder. Migrates an older schema and refuses a newer one. Reads the
  // state from the views; if they do not match the end of the log, replays the log.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  // Replays the whole log from its first event. Read-only and safe while a daemon runs.
  static Result<State> replay(const std::string& folder);
  // Writes a consistent copy of the database to a new file (0600). Safe while a daemon runs.
  static Status copy(const std::string& folder, const std::string& file);
  virtual ~Store() = default;

  // Numbers the events, checks each against the state, makes them durable in one transaction and
  // applies them. All or nothing.
  virtual Status append(std::span<Event> events) = 0;
  // Random, chosen when the store was created. A copy of a store has the same.
  virtual const std::string& identity() const = 0;
  // The time of the newest event; 0: there is none. For the writer's thread.
  virtual double last_at() const = 0;
  // The writer's thread may read the state at any time. Other threads must hold state_lock() shared
  // while they read it. append() holds the lock only while it changes the state in memory, not
  // while it writes.
  virtual const State& state() const = 0;
  virtual SharedMutex& state_lock() const = 0;

  // At most `limit` events with numbers above `after`, oldest first. `job` 0 and an empty tenant
  // mean all. May be called from any thread, also during append().
  virtual Result<std::vector<Event>> read_events(std::int64_t after, int limit, JobNumber job,
                                                 const std::string& tenant) const = 0;
  // Device time of a period. May be called from any thread, also during append(). Costs as much as
  // the period has rows, whatever the length of the log.
  virtual Result<UsageReport> usage(const UsageQuery& query) const = 0;
  // Device time of each tenant up to `now`, in order of appearance. Other threads than the writer's
  // must hold state_lock() shared.
  virtual std::vector<std::pair<std::string, DeviceTime>> usage_totals(double now) const = 0;
};

}  // namespace rubato::control
