// The accounts of all jobs as tables of the store, written in the same transaction as the events
// that they follow from (usage.h). They are tables of their own, so that they stay when jobs leave
// the other ones:
//
//   usage          device time by day, tenant and job
//   usage_jobs     name and unix user of every job that ever held devices; usage_labels its labels
//   usage_open     the meters of jobs that may still hold devices
//   usage_tenants  the sum of each tenant, in order of appearance
//
// If they do not match the end of the log (a database of an earlier version), they are made anew
// from it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "control/sqlite.h"
#include "control/usage.h"

namespace rubato::control {

enum class UsageBy { kTenant, kUser, kJob, kLabel };

struct UsageQuery {
  UsageBy by = UsageBy::kTenant;
  Day from = 0;  // first and last day of the period
  Day to = 0;
  std::string tenant{};  // empty: all
  double now = 0;        // device time of jobs that hold devices counts up to here
  int limit = 1000;
};
struct UsageRow {
  std::string key;       // a tenant, a user ("" is the daemon's own), "j12", a label
  std::string name{};    // of a job
  std::string tenant{};  // of a job
  std::int64_t jobs = 0;
  DeviceTime time{};
};
struct UsageReport {
  std::vector<UsageRow> rows{};  // most device time first, at most `limit`
  DeviceTime total{};            // of the whole period
  std::int64_t jobs = 0;
  bool more = false;
};

// The writing side. Owned by the store's writer.
class UsageTables {
 public:
  // Creates the tables if they are missing. `last_seq`: the end of the log. If they do not match
  // it, they are empty, and stale() is true: all events must be written again.
  static Result<UsageTables> open(Database& database, std::int64_t last_seq);
  bool stale() const { return stale_; }

  // Collects what an event changes. `job` is the job after the event; null: it is not known any
  // more.
  void note(const Event& event, const JobRecord* job);
  // Inside the transaction of the events: writes what was collected.
  Status write(std::int64_t last_seq);
  // After the transaction: it was committed, or it never happened.
  void commit();
  void roll_back() { fresh_ = {}; }

  // By tenant, up to `now`, in order of appearance. The caller holds the store's state lock.
  std::vector<std::pair<std::string, DeviceTime>> totals(double now) const;

 private:
  struct Open {
    std::string tenant;
    UsageMeter meter;
    Day last_day = 0;  // of its newest event
  };
  struct NewJob {
    std::string name;
    std::string user;
    std::vector<std::string> labels;
  };
  // What the events of a transaction change.
  struct Fresh {
    std::map<JobNumber, Open> meters;  // as they are now
    std::map<JobNumber, NewJob> jobs;
    std::map<std::pair<std::string, JobNumber>, DeviceTimeByDay> added;
    std::vector<JobNumber> ordinary;  // turned out to be ordinary programs
    std::map<std::string, DeviceTime> totals;
  };
  Status prepare(Database& database);
  Status load(Database& database);
  Status write_time(const std::string& tenant, JobNumber job, const DeviceTimeByDay& days);
  Status write_ordinary(JobNumber job, const Open& open);
  Status write_jobs();
  Status write_meters();

  bool stale_ = false;
  std::map<JobNumber, Open> open_;
  std::vector<std::pair<std::string, DeviceTime>> totals_;
  std::map<std::string, std::size_t> place_in_totals_;
  Fresh fresh_;
  Statement add_time_;
  Statement read_time_;
  Statement put_job_;
  Statement put_label_;
  Statement put_open_;
  Statement drop_open_;
  Statement put_tenant_;
  Statement put_seq_;
};

// The reading side, with a connection of its own. Thread-safe, and safe while the writer appends.
class UsageReader {
 public:
  static Result<std::unique_ptr<UsageReader>> open(const std::string& path);
  Result<UsageReport> read(const UsageQuery& query);

 private:
  explicit UsageReader(Database database) : database_(std::move(database)) {}
  Result<std::string> live_rows(const UsageQuery& query) RUBATO_REQUIRES(mutex_);
  Result<UsageReport> read_rows(const UsageQuery& query) RUBATO_REQUIRES(mutex_);

  Mutex mutex_;
  Database database_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::control
