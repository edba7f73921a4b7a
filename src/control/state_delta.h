// Computes what a group of events would change, without touching the state. The store uses it to
// check and record events before they are durable, and commits the change afterwards.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "control/state.h"

namespace rubato::control {

// Jobs at rest and idempotency keys that are not in memory.
class StoredJobs {
 public:
  virtual ~StoredJobs() = default;
  virtual Result<std::optional<JobRecord>> stored_job(JobNumber number) = 0;
  virtual Result<std::optional<KeyUse>> stored_key(const std::string& tenant,
                                                   const std::string& key) = 0;
};

class StateDelta {
 public:
  // `base` must not change until commit(). What is not in it is looked up in `stored`, if given.
  explicit StateDelta(const State& base, StoredJobs* stored = nullptr);

  // Like State::apply on the base with all events so far. The cost depends on the size of the
  // affected object, not of the state.
  Status apply(const Event& event);

  // The objects affected by the events. after() has their new values and nothing else; an object
  // that was removed is absent.
  const State& after() const { return after_; }
  const std::set<JobNumber>& jobs() const { return jobs_; }
  const std::set<std::string>& tenants() const { return tenants_; }
  const std::set<std::int64_t>& reservations() const { return reservations_; }
  const std::set<std::string>& profiles() const { return profiles_; }
  const std::set<std::string>& nodes() const { return nodes_; }
  bool policy() const { return policy_; }
  // Jobs that existed before and were removed, with their uid.
  const std::map<JobNumber, std::string>& removed() const { return removed_; }

  bool is_new(JobNumber job) const { return jobs_.contains(job) && !known_.contains(job); }
  // Whether a job that existed before has another document now.
  bool has_new_document(JobNumber job) const;

  // Applies the changes to the base.
  void commit(State& base) &&;

 private:
  Status pull_job(JobNumber number);
  Status pull_key(const std::string& tenant, const std::string& key);

  const State& base_;
  StoredJobs* stored_;
  State after_;
  std::set<JobNumber> jobs_;
  std::set<JobNumber> known_;  // of those, the ones that existed before
  std::map<JobNumber, std::string> removed_;
  std::set<std::string> tenants_;
  std::set<std::int64_t> reservations_;
  std::set<std::string> profiles_;
  std::set<std::string> nodes_;
  bool policy_ = false;
};

}  // namespace rubato::control
