// Removes the folders of jobs. What is in them was written by strangers: no link is followed,
// nothing outside the folder or on another file system mounted in it is touched, folders of any
// depth are handled, and everything happens with the rights of the folder's owner (as_user.h).
//
// JOBS/12 is first renamed to JOBS/12.removed, so that nobody sees half a folder, and then emptied.
// Both can be interrupted at any moment and are continued by the next call.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "control/retention.h"

namespace rubato::control {

// Removes at most about `most` entries of the folder. True: it is gone. An error if it belongs to
// another job, or if nothing of what is left can be removed.
Result<bool> remove_some(const std::string& jobs_folder, const Removal& removal, int most);

// Jobs whose folders are renamed and not removed yet.
std::vector<std::int64_t> half_removed(const std::string& jobs_folder);

// A thread that removes folders one after the other. A large file can take a while, and the live
// loop must not wait for it.
class FolderRemover {
 public:
  explicit FolderRemover(std::string jobs_folder);
  // Stops within a portion; what is left is removed by the next daemon.
  ~FolderRemover();
  FolderRemover(const FolderRemover&) = delete;
  FolderRemover& operator=(const FolderRemover&) = delete;

  // Does nothing if it waits already, or could not be removed before.
  void add(const Removal& removal);
  struct Done {
    std::int64_t job = 0;
    std::string problem{};  // why it could not be removed; empty: it is gone
  };
  // Those that came to an end since the last call.
  std::vector<Done> take_done();
  // Whether there is something to do, or to take.
  bool busy();

 private:
  void run();

  const std::string jobs_folder_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Removal> waiting_ RUBATO_GUARDED_BY(mutex_);
  std::set<std::int64_t> known_ RUBATO_GUARDED_BY(mutex_);  // waiting, at work, or hopeless
  std::vector<Done> done_ RUBATO_GUARDED_BY(mutex_);
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rubato::control
