// What a group of events would change, found without touching the state: the store checks and
// records events with it before they are durable, and makes the change afterwards.
#pragma once

#include <set>
#include <string>

#include "control/state.h"

namespace rubato::control {

class StateDelta {
 public:
  // `base` must stay as it is until commit().
  explicit StateDelta(const State& base);

  // As State::apply on the base with all events so far. Costs the size of what the event is about,
  // not of the state.
  Status apply(const Event& event);

  // What the events were about. In after() it has its new value, or is absent when it is gone; what
  // they were not about is absent, too.
  const State& after() const { return after_; }
  const std::set<JobNumber>& jobs() const { return jobs_; }
  const std::set<std::string>& tenants() const { return tenants_; }
  const std::set<std::int64_t>& reservations() const { return reservations_; }
  const std::set<std::string>& profiles() const { return profiles_; }
  bool policy() const { return policy_; }
  bool is_new(JobNumber job) const { return job >= base_.next_job; }

  // The job was there before, and its document is another now.
  bool has_new_document(JobNumber job) const;

  // Makes the change in the base.
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
