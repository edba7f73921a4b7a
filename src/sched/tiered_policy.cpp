#include "sched/tiered_policy.h"

#include <algorithm>

#include "sched/jobs_in_room.h"
#include "sched/placement.h"
#include "sched/sizes.h"
#include "sched/validate.h"

namespace rubato {

namespace {

void take(const std::vector<NodeShare>& shares, Room& room) {
  for (const NodeShare& share : shares) room[share.node.index()] -= share.devices;
}

// What the jobs hold, by node.
Room held_by(const std::vector<std::size_t>& jobs, const PolicyInput& input) {
  Room held(input.usable.size(), 0);
  for (const std::size_t i : jobs) {
    for (const NodeShare& share : input.jobs[i]->allocation.shares) {
      held[share.node.index()] += share.devices;
    }
  }
  return held;
}

bool fixes_nodes(const Plan& plan) {
  return std::any_of(plan.grants.begin(), plan.grants.end(),
                     [](const Grant& grant) { return grant.nodes.has_value(); });
}

// The changes that carry out a valid plan. Where the policy leaves the nodes open, devices that
// jobs of lower priority hold are taken only if the others are not enough.
std::vector<PlacementChange> place_beside(const Plan& plan, const PolicyInput& own,
                                          const Room& lower) {
  Room gentle(own.usable.begin(), own.usable.end());
  for (std::size_t node = 0; node < gentle.size(); ++node) {
    gentle[node] = std::max(0, gentle[node] - lower[node]);
  }
  const DeviceCounts counts = by_type(gentle, own.cluster);
  DeviceCounts granted;
  for (const Grant& grant : plan.grants) {
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      granted.of[type] += grant.devices.of[type];
    }
  }
  bool enough = !fixes_nodes(plan);
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    enough = enough && granted.of[type] <= counts.of[type];
  }
  if (!enough) return place(plan, own);
  return place(plan, {.now_s = own.now_s,
                      .cluster = own.cluster,
                      .usable = gentle,
                      .usable_by_type = counts,
                      .jobs = own.jobs,
                      .finished = {}});
}

// Takes the smallest size of a waiting job out of `room`, if it is there.
void keep_for(const JobSpec& spec, const Cluster& cluster, Room& room) {
  const DeviceCounts left = by_type(room, cluster);
  DeviceCounts wanted;
  int missing = spec.smallest();
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (!spec.allows(DeviceTypeId(type))) continue;
    if (!spec.mixes_types && left.of[type] < missing) continue;
    wanted.of[type] = std::min(missing, left.of[type]);
    missing -= wanted.of[type];
    if (missing == 0) break;
  }
  if (missing > 0) return;
  for (const Node& node : cluster.nodes()) {
    int& want = wanted[node.type];
    const int taken = std::min(want, room[node.id.index()]);
    room[node.id.index()] -= taken;
    want -= taken;
  }
}

}  // namespace

TieredPolicy::Tier& TieredPolicy::tier(int priority) {
  Tier& tier = tiers_[priority];
  if (!tier.policy) tier.policy = first_ ? std::move(first_) : make_();
  return tier;
}

// A policy that is asked is told of all jobs that ended. One that is not, because it has no jobs,
// is told of its own when it is asked again.
void TieredPolicy::sort_finished(const PolicyInput& input, const Members& members) {
  for (const FinishedJob& finished : input.finished) {
    const auto known = known_priority_.find(finished.id);
    for (auto& [priority, tier] : tiers_) {
      const bool own = known == known_priority_.end() || known->second == priority;
      if (own && !members.contains(priority)) tier.finished.push_back(finished);
    }
    if (known != known_priority_.end()) known_priority_.erase(known);
  }
  if (known_priority_.size() > 2 * input.jobs.size() + 100) known_priority_.clear();  // of rejected
  for (const JobState* job : input.jobs) known_priority_[job->spec.id] = job->spec.priority;
}

Plan TieredPolicy::pass_through(const PolicyInput& input, int priority) {
  Tier& only = tier(priority);
  if (only.finished.empty()) return only.policy->decide(input);
  only.finished.insert(only.finished.end(), input.finished.begin(), input.finished.end());
  Plan plan = only.policy->decide({.now_s = input.now_s,
                                   .cluster = input.cluster,
                                   .usable = input.usable,
                                   .usable_by_type = input.usable_by_type,
                                   .jobs = input.jobs,
                                   .finished = only.finished,
                                   .tenants = input.tenants,
                                   .pinned = input.pinned,
                                   .limit = input.limit});
  only.finished.clear();
  return plan;
}

// Asks the policy of one priority what it does with `room`, and takes that out of it. `lower` is
// what jobs of lower priority hold. False if its plan is invalid; the scheduler says what is wrong.
bool TieredPolicy::ask(int priority, const std::vector<std::size_t>& jobs, const PolicyInput& input,
                       const Room& lower, Room& room, Plan& plan) {
  Tier& asked = tier(priority);
  asked.finished.insert(asked.finished.end(), input.finished.begin(), input.finished.end());
  std::vector<const JobState*> all;
  for (const std::size_t i : jobs) all.push_back(input.jobs[i]);
  const JobsInRoom in_room(std::move(all), room, input.now_s);
  const Room open = room;
  const DeviceCounts counts = by_type(open, input.cluster);
  const PolicyInput own{.now_s = input.now_s,
                        .cluster = input.cluster,
                        .usable = open,
                        .usable_by_type = counts,
                        .jobs = in_room.jobs(),
                        .finished = asked.finished,
                        .tenants = input.tenants,
                        .pinned = input.pinned,
                        .limit = input.limit};
  Plan decided = asked.policy->decide(own);
  asked.finished.clear();
  plan.placement = decided.placement;
  plan.solver_s += decided.solver_s;
  if (!decided.note.empty()) plan.note += (plan.note.empty() ? "" : "; ") + decided.note;
  if (decided.wake_at_s) {
    plan.wake_at_s = std::min(plan.wake_at_s.value_or(*decided.wake_at_s), *decided.wake_at_s);
  }
  keep_to_sizes(decided, own);
  if (validate(decided, own)) {
    if (decided.grants.size() != jobs.size()) {
      plan = std::move(decided);
      return false;
    }
    for (std::size_t k = 0; k < jobs.size(); ++k) {
      plan.grants[jobs[k]] = std::move(decided.grants[k]);
    }
    // An order that names every job once is not what is wrong.
    if (decided.placement_order.size() == jobs.size()) decided.placement_order.clear();
    for (const std::size_t k : decided.placement_order) {
      plan.placement_order.push_back(k < jobs.size() ? jobs[k] : input.jobs.size());
    }
    return false;
  }
  std::vector<PlacementChange> changes = place_beside(decided, own, lower);
  std::vector<std::vector<NodeShare>> shares;
  for (const JobState* job : own.jobs) shares.push_back(job->allocation.shares);
  for (PlacementChange& change : changes) shares[change.job] = std::move(change.after.shares);
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    take(shares[k], room);
    Grant& grant = plan.grants[jobs[k]];
    grant = std::move(decided.grants[k]);
    if (grant.devices.total() > 0) grant.nodes = std::move(shares[k]);
  }
  for (const std::size_t i : jobs) {
    const Grant& grant = plan.grants[i];
    const bool waits = grant.devices.total() == 0 && !grant.rejected;
    if (waits) keep_for(input.jobs[i]->spec, input.cluster, room);
  }
  return true;
}

Plan TieredPolicy::decide(const PolicyInput& input) {
  if (!input.jobs.empty()) last_ = input.jobs.back()->spec.priority;
  const bool one = std::all_of(input.jobs.begin(), input.jobs.end(),
                               [&](const JobState* job) { return job->spec.priority == last_; });
  Members members;
  if (!one || tiers_.size() > 1 || (tiers_.size() == 1 && !tiers_.contains(last_))) {
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      members[input.jobs[i]->spec.priority].push_back(i);
    }
    sort_finished(input, members);
  }
  if (one) return pass_through(input, last_);

  Plan plan;
  plan.grants.resize(input.jobs.size());
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    plan.grants[i].job = input.jobs[i]->spec.id;
  }
  Room lower(input.usable.size(), 0);
  for (const auto& [priority, jobs] : members) {
    const Room held = held_by(jobs, input);
    for (std::size_t node = 0; node < lower.size(); ++node) lower[node] += held[node];
  }
  Room room(input.usable.begin(), input.usable.end());
  for (const auto& [priority, jobs] : members) {
    const Room held = held_by(jobs, input);
    for (std::size_t node = 0; node < lower.size(); ++node) lower[node] -= held[node];
    if (!ask(priority, jobs, input, lower, room, plan)) break;
  }
  return plan;
}

}  // namespace rubato
