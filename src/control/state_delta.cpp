#include "control/state_delta.h"

#include "control/event_types.h"

namespace rubato::control {

namespace {

// Copies an entry the first time it is touched.
template <typename Key, typename Map>
void pull(const Key& key, std::set<Key>& touched, const Map& from, Map& to) {
  if (!touched.insert(key).second) return;
  if (const auto found = from.find(key); found != from.end()) to.insert(*found);
}

template <typename Key, typename Map>
void push(const std::set<Key>& touched, Map& from, Map& to) {
  for (const Key& key : touched) {
    auto node = from.extract(key);
    if (node.empty()) {
      to.erase(key);
    } else {
      to.insert_or_assign(key, std::move(node.mapped()));
    }
  }
}

// The field of the body that identifies the affected object. If it is missing, the check of the
// event refuses the event.
template <typename Value>
Value named(const Event& event, const char* field) {
  if (!event.body.is_object()) return {};
  const auto found = event.body.find(field);
  if (found == event.body.end()) return {};
  if constexpr (std::is_same_v<Value, std::string>) {
    return found->is_string() ? found->template get<std::string>() : Value();
  } else {
    return found->is_number_integer() ? found->template get<Value>() : Value();
  }
}

}  // namespace

StateDelta::StateDelta(const State& base, StoredJobs* stored) : base_(base), stored_(stored) {
  after_.last_seq = base.last_seq;
  after_.next_job = base.next_job;
  after_.next_reservation = base.next_reservation;
  after_.policy = base.policy;
  after_.policy_settings = base.policy_settings;
  after_.supply = base.supply;
  after_.supply_until = base.supply_until;
  after_.ended_jobs = base.ended_jobs;
  after_.folded_below = base.folded_below;
}

Status StateDelta::pull_job(JobNumber number) {
  if (!jobs_.insert(number).second) return ok_status();
  if (const auto found = base_.jobs.find(number); found != base_.jobs.end()) {
    after_.jobs.insert(*found);
    known_.insert(number);
    return ok_status();
  }
  if (stored_ == nullptr || number >= base_.next_job) return ok_status();
  auto stored = stored_->stored_job(number);
  if (!stored) return stored.error();
  if (!*stored) return ok_status();
  after_.jobs.emplace(number, std::move(**stored));
  known_.insert(number);
  return ok_status();
}

Status StateDelta::pull_key(const std::string& tenant, const std::string& key) {
  if (key.empty() || after_.keys.contains({tenant, key})) return ok_status();
  if (const auto used = base_.keys.find({tenant, key}); used != base_.keys.end()) {
    after_.keys.insert(*used);
  } else if (stored_ != nullptr) {
    const auto stored = stored_->stored_key(tenant, key);
    if (!stored) return stored.error();
    if (*stored) after_.keys[{tenant, key}] = **stored;
  }
  return ok_status();
}

Status StateDelta::apply(const Event& event) {
  if (event.job != 0) {
    if (auto status = pull_job(event.job); !status) return status;
  }
  const EventType* type = find_event_type(event.type);
  switch (type == nullptr ? Subject::kNothing : type->subject) {
    case Subject::kNothing:
      break;
    case Subject::kJob:
      if (auto status = pull_key(event.tenant, named<std::string>(event, "key")); !status) {
        return status;
      }
      break;
    case Subject::kTenant:
      pull(named<std::string>(event, "name"), tenants_, base_.tenants, after_.tenants);
      break;
    case Subject::kReservation:
      pull(named<std::int64_t>(event, "number"), reservations_, base_.reservations,
           after_.reservations);
      break;
    case Subject::kProfile:
      pull(named<std::string>(event, "key"), profiles_, base_.profiles, after_.profiles);
      break;
    case Subject::kNode:
      pull(named<std::string>(event, "name"), nodes_, base_.nodes, after_.nodes);
      break;
    case Subject::kPolicy:
      policy_ = true;
      break;
  }
  const auto before = after_.jobs.find(event.job);
  const std::string uid = before == after_.jobs.end() ? "" : before->second.uid;
  const bool existed = before != after_.jobs.end() && known_.contains(event.job);
  auto status = after_.apply(event);
  if (status && existed && !after_.jobs.contains(event.job)) removed_[event.job] = uid;
  return status;
}

bool StateDelta::has_new_document(JobNumber job) const {
  const auto before = base_.jobs.find(job);
  const auto now = after_.jobs.find(job);
  return before != base_.jobs.end() && now != after_.jobs.end() &&
         before->second.document != now->second.document;
}

void StateDelta::commit(State& base) && {
  push(jobs_, after_.jobs, base.jobs);
  push(tenants_, after_.tenants, base.tenants);
  push(reservations_, after_.reservations, base.reservations);
  push(profiles_, after_.profiles, base.profiles);
  push(nodes_, after_.nodes, base.nodes);
  for (const auto& [key, use] : after_.keys) base.keys.insert_or_assign(key, use);
  base.policy = std::move(after_.policy);
  base.policy_settings = std::move(after_.policy_settings);
  base.supply = std::move(after_.supply);
  base.supply_until = after_.supply_until;
  base.last_seq = after_.last_seq;
  base.next_job = after_.next_job;
  base.next_reservation = after_.next_reservation;
  base.ended_jobs = std::move(after_.ended_jobs);
}

}  // namespace rubato::control
