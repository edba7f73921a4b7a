// The daemon's durable memory: an append-only event log in SQLite (WAL), and the State as a view of
// it. One process, one writer. An append is durable (synced) when it returns; several callers'
// events are committed together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_mutex.h"
#include "control/state.h"

namespace rubato::control {

class Store {
 public:
  // Opens or creates STATE/rubato.db (0600; the folder 0700) and takes the lock: a second daemon on
  // the same folder is refused. Migrates an older schema; refuses a newer one. Reads the state from
  // the views; where they do not match the log's end, replays.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  // Read-only, beside a running daemon: replays the whole log from its first event.
  static Result<State> replay(const std::string& folder);
  virtual ~Store() = default;

  // Gives the events their numbers, checks each against the state, makes all durable in one
  // transaction and applies them. All or nothing.
  virtual Status append(std::span<Event> events) = 0;
  // The writer's thread may look at it at any time. Other threads hold state_lock() (shared) while
  // they look; append() holds it only for the moment in which it changes the state, not while it
  // writes.
  virtual const State& state() const = 0;
  virtual SharedMutex& state_lock() const = 0;

  // Safe beside append(), from any thread: events after `seq`, oldest first, at most `limit`;
  // `job` 0 and an empty tenant mean all.
  virtual Result<std::vector<Event>> read_events(std::int64_t after, int limit, JobNumber job,
                                                 const std::string& tenant) const = 0;
};

}  // namespace rubato::control
