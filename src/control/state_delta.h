// Computes what a group of events would change, without touching the state. The store uses it to
// check and record events before they are durable, and commits the change afterwards.
#pragma once

#include <set>
#include <string>

#include "control/state.h"

namespace rubato::control {

class StateDelta {
 public:
  // `base` must not change until commit().
  explicit StateDelta(const State& base);

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
  bool policy() const { return policy_; }
  bool is_new(JobNumber job) const { return job >= base_.next_job; }

  // True if the job existed before and its document has changed.
  bool has_new_document(JobNumber job) const;

  // Applies the change to the base.
  void commit(State& base) &&;

 private:
  const State& base_;
  State after_;
  std::set<JobNumber> jobs_;
  std::set<std::string> tenants_;
  std::set<std::int64_t> reservations_;
  std::set<std::string> profiles_;
  bool policy_ = false;
};

}  // namespace rubato::control
