// Removes what a Retention no longer keeps from the store, in small portions, each of which is one
// short transaction. store_fold.h shortens the log; here are folders and keys:
//
//   1. archive: the job's row says that its folder is no longer kept, and `removals` that it must
//      be removed. The row stays: it is the archive that `rubato queue --all` reads.
//   2. Somebody removes the folder (folder_removal.h), as often as it takes.
//   3. done: the entry in `removals` goes.
// A daemon that dies in between goes on where it was: the folder of every job is either kept, or in
// `removals`, or gone.
#pragma once

#include <vector>

#include "control/retention.h"
#include "control/sqlite.h"
#include "control/state.h"
#include "control/store_fold.h"

namespace rubato::control {

class StoreRetention {
 public:
  static Result<StoreRetention> make(Database& database);

  // One portion of everything. True: there may be more to do at once.
  Result<bool> prune(Database& database, const State& state, const Retention& rule, double now,
                     int most);
  // Folders to remove, with numbers above `after`.
  Result<std::vector<Removal>> removals(JobNumber after, int most);
  Status done(JobNumber job);

 private:
  explicit StoreRetention(LogFold fold) : fold_(std::move(fold)) {}
  Result<int> archive(Database& database, const State& state, const KeepLimit& rule, double now,
                      int most);
  Status mark(Database& database, const std::vector<Removal>& jobs);
  Result<int> forget_keys(double now, int most);

  LogFold fold_;
  Statement oldest_;
  Statement mark_;
  Statement note_;
  Statement pending_;
  Statement removals_;
  Statement done_;
  Statement archived_;
  Statement add_archived_;
  Statement old_keys_;
  Statement forget_keys_;
};

}  // namespace rubato::control
