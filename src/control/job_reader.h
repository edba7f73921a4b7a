// Reads jobs and idempotency keys from the tables, each through an index: the cost depends on what
// is returned, not on how many jobs there ever were.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "control/sqlite.h"
#include "control/state.h"
#include "control/state_delta.h"

namespace rubato::control {

// Which jobs to list.
struct JobQuery {
  std::string tenant{};         // empty: of all
  JobNumber after = 0;          // only higher numbers
  JobNumber before = 0;         // only lower numbers; 0: no limit
  double submitted_before = 0;  // seconds since 1970; 0: no limit
  bool newest_first = false;
  int limit = 1000;
};

// Thread-safe, and safe while the writer appends. A job that the writer changed is seen as soon as
// its append has returned.
class JobReader final : public StoredJobs {
 public:
  static Result<std::unique_ptr<JobReader>> open(const std::string& path);

  Result<std::optional<JobRecord>> stored_job(JobNumber number) override;
  Result<std::optional<KeyUse>> stored_key(const std::string& tenant,
                                           const std::string& key) override;
  // The newest job of that name (job_title); 0: there is none. An empty tenant means any.
  Result<JobNumber> newest_named(const std::string& name, const std::string& tenant);
  // The newest job of an array of that name; 0: there is none. An empty tenant means any.
  Result<JobNumber> newest_of_array(const std::string& name, const std::string& tenant);
  // In order of submission, or the other way round.
  Result<std::vector<JobRecord>> list(const JobQuery& query);
  // Whether its folder may still be there.
  Result<bool> keeps_folder(JobNumber number);

 private:
  explicit JobReader(Database database) : database_(std::move(database)) {}
  Status prepare();

  Mutex mutex_;
  Database database_;  // outlives its statements
  Statement job_ RUBATO_GUARDED_BY(mutex_);
  Statement key_ RUBATO_GUARDED_BY(mutex_);
  Statement named_ RUBATO_GUARDED_BY(mutex_);
  Statement named_of_tenant_ RUBATO_GUARDED_BY(mutex_);
  Statement in_array_ RUBATO_GUARDED_BY(mutex_);
  Statement in_array_of_tenant_ RUBATO_GUARDED_BY(mutex_);
  Statement last_before_ RUBATO_GUARDED_BY(mutex_);
  Statement list_ RUBATO_GUARDED_BY(mutex_);
  Statement list_of_tenant_ RUBATO_GUARDED_BY(mutex_);
  Statement newest_ RUBATO_GUARDED_BY(mutex_);
  Statement newest_of_tenant_ RUBATO_GUARDED_BY(mutex_);
  Statement kept_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::control
