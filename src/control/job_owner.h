// To whom a job's folder belongs. A database can be restored from an older copy, or be lost, while
// the folders of newer jobs are still there. So every folder says which submission it belongs to
// (FOLDER/owner, written before anything else in it), and no folder of another submission is ever
// read or used. Numbers of jobs are never used twice either: a small file beside the database
// remembers the highest one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/state.h"

namespace rubato::control {

struct FolderOwner {
  std::string store;  // Store::identity()
  std::string job;    // JobRecord::uid
};

// Creates the folder with its owner file at once, or checks that an existing one belongs to this
// owner. A folder without an owner file belongs to a job without a uid.
Status claim_folder(const std::string& folder, const FolderOwner& owner);
// Both are empty if nothing says to whom it belongs.
FolderOwner read_folder_owner(const std::string& folder);
// Whether the folder belongs to the job with this uid, or does not exist.
bool owns_folder(const std::string& folder, const std::string& uid);

// A folder that did not belong to any job of the state.
struct SetAside {
  std::string folder;
  std::string moved_to;  // empty: it could not be renamed
  std::string message;
};
// Looks at the folders JOBS/<number>: those of active jobs only, or all. Those that do not belong
// to the job of that number are renamed to JOBS/<number>.<part of their owner>, after their
// processes were stopped (checkpointed if they stop within a few seconds, killed otherwise).
// `uid_of` knows the jobs that are not in the state: nothing for a number that no job has.
using UidOf = std::function<std::optional<std::string>(JobNumber)>;
std::vector<SetAside> set_aside_foreign(const std::string& jobs_folder, const State& state,
                                        bool all, const UidOf& uid_of = {});
// The highest number of a folder JOBS/<number> or JOBS/<number>.*; 0: there is none.
JobNumber highest_folder(const std::string& jobs_folder);

// The file that remembers how far a store has used numbers. Not synced to disk, because it only
// matters if the database is replaced.
class NumberMark {
 public:
  explicit NumberMark(const std::string& file);
  ~NumberMark();
  NumberMark(const NumberMark&) = delete;
  NumberMark& operator=(const NumberMark&) = delete;

  const std::string& store() const { return store_; }  // empty if the file says nothing
  JobNumber next_job() const { return next_job_; }     // 1 if the file says nothing
  // The store has used all numbers below this one. On failure, the next call tries again.
  void note(const std::string& store, JobNumber next_job);

 private:
  int file_ = -1;
  std::string store_;
  JobNumber next_job_ = 1;
};

}  // namespace rubato::control
