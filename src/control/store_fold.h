// Keeps the log short: its beginning is folded into a base, the state after the events that are no
// longer there.
//
// Invariants, after every transaction:
//   - The events of the log are base_seq + 1, base_seq + 2, ... without gaps, and the base tables
//     have the state after event base_seq, without jobs at rest.
//   - So the base and the events together give the present state, which `rubatod check` verifies.
//   - Jobs that came to rest before the base are rows of the table `jobs` and nowhere else.
// A portion of events is applied to the base and deleted in one transaction, so a daemon that dies
// has done both or neither.
#pragma once

#include <optional>
#include <utility>

#include "control/sqlite.h"
#include "control/state.h"
#include "control/store_views.h"

namespace rubato::control {

class LogFold {
 public:
  static Result<LogFold> make(Database& database);

  // Folds at most `most` events: those before `before` (seconds since 1970), and those that are too
  // many if the log should have at most `keep` events (0: any number). Stops at the first one that
  // stays; the last event `last` always stays. Returns how many were folded. Must not be called
  // inside a transaction.
  Result<int> fold(Database& database, double before, std::int64_t keep, std::int64_t last,
                   int most);

 private:
  LogFold(StoreViews tables, Statement read, Statement drop)
      : tables_(std::move(tables)), read_(std::move(read)), drop_(std::move(drop)) {}
  Status record(Database& database, const StateDelta& delta);

  StoreViews tables_;
  Statement read_;
  Statement drop_;
  std::optional<State> base_;  // while there is something to fold
};

}  // namespace rubato::control
