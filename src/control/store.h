// The daemon's durable storage: an append-only event log in SQLite (WAL) and the State derived from
// it. There is one process and one writer. An append is durable (synced) when it returns; events of
// several callers are committed together.
//
// What has ended costs nothing:
//   - state() has the jobs that are not at rest (state.h), and those that came to rest since the
//     owner of the store last let go of them. All jobs, with those at rest, are rows of a table,
//     and jobs() finds them through indexes.
//   - The beginning of the log can be folded into a base state (store_fold.h).
//   - Folders and idempotency keys go after a while (store_retention.h).
// So memory, a start and an append depend on the jobs that are not at rest.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_mutex.h"
#include "control/event_query.h"
#include "control/job_reader.h"
#include "control/retention.h"
#include "control/state.h"
#include "control/usage_tables.h"

namespace rubato::control {

// What Store::check found.
struct CheckedLog {
  std::int64_t events = 0;   // of the log
  std::int64_t folded = 0;   // events before it that were folded into the base
  std::int64_t jobs = 0;     // in the tables
  std::string difference{};  // between the tables and what the log says; empty: none
};

// Somebody who must know of events before they count: those who would go on if this machine were
// lost (standby/leadership.h). The writer's thread calls it.
class Witness {
 public:
  virtual ~Witness() = default;
  // The events are about to become durable; `bodies` are theirs as text. With an error they do not,
  // and append() returns the error.
  virtual Status witness(std::span<const Event> events, std::span<const std::string> bodies) = 0;
  // They have not become durable after all.
  virtual void broken(const Error& error) = 0;
};

class Store {
 public:
  // Opens or creates FOLDER/rubato.db (0600; the folder 0700) and takes the lock, which keeps a
  // second daemon out of the folder. Migrates an older schema and refuses a newer one. Reads the
  // state from the tables; if they do not match the end of the log, replays the log. A small file
  // is checked for damage as a whole, a large one only where the state is. A `witness` must outlive
  // the store.
  static Result<std::unique_ptr<Store>> open(const std::string& folder, Witness* witness = nullptr);
  // The state after the base and all events of the log, with jobs at rest as far as the log knows
  // them. Read-only and safe while a daemon runs.
  static Result<State> replay(const std::string& folder);
  // Replays the log and compares the result with the tables; also checks the whole file for damage.
  static Result<CheckedLog> check(const std::string& folder);
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
  // while it writes. Idempotency keys are in jobs() only.
  virtual const State& state() const = 0;
  virtual SharedMutex& state_lock() const = 0;

  // At most `limit` events with numbers above `after`, oldest first. `job` 0 and an empty tenant
  // mean all. May be called from any thread, also during append().
  virtual Result<std::vector<Event>> read_events(std::int64_t after, int limit, JobNumber job,
                                                 const std::string& tenant) const = 0;
  // The same with more conditions. Looks at a bounded number of events; EventPage::next says where
  // to go on. For any thread.
  virtual Result<EventPage> find_events(const EventQuery& query) const = 0;
  // Device time of a period. May be called from any thread, also during append(). Costs as much as
  // the period has rows, whatever the length of the log.
  virtual Result<UsageReport> usage(const UsageQuery& query) const = 0;
  // Device time of each tenant up to `now`, in order of appearance. Other threads than the writer's
  // must hold state_lock() shared.
  virtual std::vector<std::pair<std::string, DeviceTime>> usage_totals(double now) const = 0;
  // All jobs, for any thread. Newer than state() while append() runs, never older.
  virtual JobReader& jobs() const = 0;

  // --- For the writer's thread: what has ended goes
  // Jobs at rest that are still in state().
  virtual const std::set<JobNumber>& rested() const = 0;
  // Forgets one of them; it stays in the table.
  virtual void let_go(JobNumber job) = 0;
  // Does one portion of what the rule asks for: about `most` jobs. True: there may be more to do.
  virtual Result<bool> prune(const Retention& rule, double now, int most) = 0;
  // Folders to remove, with numbers above `after`. Also those of jobs with the event `removed`.
  virtual Result<std::vector<Removal>> removals(JobNumber after, int most) = 0;
  // The folder is gone.
  virtual Status removal_done(JobNumber job) = 0;
};

}  // namespace rubato::control
