#include "control/job_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "control/store_views.h"

namespace rubato::control {

Result<std::unique_ptr<JobReader>> JobReader::open(const std::string& path) {
  auto database = Database::open(path);
  if (!database) return database.error();
  if (auto status = database->execute("PRAGMA query_only = ON"); !status) return status.error();
  std::unique_ptr<JobReader> reader(new JobReader(std::move(*database)));
  if (auto status = reader->prepare(); !status) return status.error();
  return reader;
}

Status JobReader::prepare() {
  const MutexLock lock(mutex_);
  const std::pair<Statement*, std::string_view> statements[] = {
      {&job_, "SELECT document, record FROM jobs WHERE number = ?"},
      {&key_, "SELECT job, at FROM keys WHERE tenant = ? AND key = ?"},
      {&named_,
       "SELECT number FROM jobs INDEXED BY jobs_by_name WHERE name = ? "
       "ORDER BY number DESC LIMIT 1"},
      {&named_of_tenant_,
       "SELECT number FROM jobs INDEXED BY jobs_by_tenant_and_name WHERE tenant = ? AND name = ? "
       "ORDER BY number DESC LIMIT 1"},
      // Its jobs are named NAME[INDEX]; no name has a backslash, the character after '['.
      {&in_array_,
       "SELECT coalesce(max(number), 0) FROM jobs INDEXED BY jobs_by_name "
       "WHERE name >= ?1 || '[' AND name < ?1 || char(92)"},
      {&in_array_of_tenant_,
       "SELECT coalesce(max(number), 0) FROM jobs INDEXED BY jobs_by_tenant_and_name "
       "WHERE tenant = ?2 AND name >= ?1 || '[' AND name < ?1 || char(92)"},
      {&last_before_,
       "SELECT number FROM jobs INDEXED BY jobs_by_submission WHERE submitted_at < ? "
       "ORDER BY submitted_at DESC, number DESC LIMIT 1"},
      {&list_,
       "SELECT document, record FROM jobs WHERE number > ? AND number < ? "
       "ORDER BY number LIMIT ?"},
      {&newest_,
       "SELECT document, record FROM jobs WHERE number > ? AND number < ? "
       "ORDER BY number DESC LIMIT ?"},
      {&list_of_tenant_,
       "SELECT document, record FROM jobs INDEXED BY jobs_by_tenant WHERE tenant = ? "
       "AND number > ? AND number < ? ORDER BY number LIMIT ?"},
      {&newest_of_tenant_,
       "SELECT document, record FROM jobs INDEXED BY jobs_by_tenant WHERE tenant = ? "
       "AND number > ? AND number < ? ORDER BY number DESC LIMIT ?"},
      {&kept_, "SELECT kept FROM jobs WHERE number = ?"},
  };
  for (const auto& [statement, sql] : statements) {
    auto prepared = database_.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return ok_status();
}

Result<std::optional<JobRecord>> JobReader::stored_job(JobNumber number) {
  const MutexLock lock(mutex_);
  job_.bind(number);
  const auto row = job_.next();
  if (!row) return row.error();
  if (!*row) return std::optional<JobRecord>();
  auto job = job_of_row(job_);
  job_.reset();
  if (!job) return job.error();
  return std::optional(std::move(*job));
}

Result<std::optional<KeyUse>> JobReader::stored_key(const std::string& tenant,
                                                    const std::string& key) {
  const MutexLock lock(mutex_);
  key_.bind(tenant).bind(key);
  const auto row = key_.next();
  if (!row) return row.error();
  if (!*row) return std::optional<KeyUse>();
  const KeyUse use{.job = key_.integer(0), .at = key_.number(1)};
  key_.reset();
  return std::optional(use);
}

Result<JobNumber> JobReader::newest_of_array(const std::string& name, const std::string& tenant) {
  const MutexLock lock(mutex_);
  Statement& statement = tenant.empty() ? in_array_ : in_array_of_tenant_;
  statement.bind(name);
  if (!tenant.empty()) statement.bind(tenant);
  const auto row = statement.next();
  if (!row) return row.error();
  const JobNumber number = statement.integer(0);
  statement.reset();
  return number;
}

Result<JobNumber> JobReader::newest_named(const std::string& name, const std::string& tenant) {
  const MutexLock lock(mutex_);
  Statement& statement = tenant.empty() ? named_ : named_of_tenant_;
  if (!tenant.empty()) statement.bind(tenant);
  statement.bind(name);
  const auto row = statement.next();
  if (!row) return row.error();
  if (!*row) return JobNumber{0};
  const JobNumber number = statement.integer(0);
  statement.reset();
  return number;
}

Result<std::vector<JobRecord>> JobReader::list(const JobQuery& query) {
  const MutexLock lock(mutex_);
  JobNumber before = query.before > 0 ? query.before : std::numeric_limits<JobNumber>::max();
  if (query.submitted_before > 0) {
    // Numbers are given in the order of submission.
    last_before_.bind(query.submitted_before);
    const auto row = last_before_.next();
    if (!row) return row.error();
    if (!*row) return std::vector<JobRecord>();
    before = std::min(before, last_before_.integer(0) + 1);
    last_before_.reset();
  }
  Statement& of_all = query.newest_first ? newest_ : list_;
  Statement& of_tenant = query.newest_first ? newest_of_tenant_ : list_of_tenant_;
  Statement& statement = query.tenant.empty() ? of_all : of_tenant;
  if (!query.tenant.empty()) statement.bind(query.tenant);
  statement.bind(query.after).bind(before).bind(std::int64_t{query.limit});
  std::vector<JobRecord> jobs;
  while (true) {
    const auto row = statement.next();
    if (!row) return row.error();
    if (!*row) return jobs;
    auto job = job_of_row(statement);
    if (!job) {
      statement.reset();
      return job.error();
    }
    jobs.push_back(std::move(*job));
  }
}

Result<bool> JobReader::keeps_folder(JobNumber number) {
  const MutexLock lock(mutex_);
  kept_.bind(number);
  const auto row = kept_.next();
  if (!row) return row.error();
  const bool kept = *row && kept_.integer(0) != 0;
  if (*row) kept_.reset();
  return kept;
}

}  // namespace rubato::control
