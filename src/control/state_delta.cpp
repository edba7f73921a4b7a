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

StateDelta::StateDelta(const State& base) : base_(base) {
  after_.last_seq = base.last_seq;
  after_.next_job = base.next_job;
  after_.next_reservation = base.next_reservation;
  after_.policy = base.policy;
  after_.policy_settings = base.policy_settings;
}

Status StateDelta::apply(const Event& event) {
  if (event.job != 0) pull(event.job, jobs_, base_.jobs, after_.jobs);
  const EventType* type = find_event_type(event.type);
  switch (type == nullptr ? Subject::kNothing : type->subject) {
    case Subject::kNothing:
      break;
    case Subject::kJob:
      if (const auto key = named<std::string>(event, "key"); !key.empty()) {
        const auto used = base_.keys.find({event.tenant, key});
        if (used != base_.keys.end()) after_.keys.insert(*used);
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
    case Subject::kPolicy:
      policy_ = true;
      break;
  }
  return after_.apply(event);
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
  base.keys.merge(after_.keys);
  base.policy = std::move(after_.policy);
  base.policy_settings = std::move(after_.policy_settings);
  base.last_seq = after_.last_seq;
  base.next_job = after_.next_job;
  base.next_reservation = after_.next_reservation;
}

}  // namespace rubato::control
