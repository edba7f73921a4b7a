#include "sched/pinned_policy.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "sched/jobs_in_room.h"
#include "sched/tenant_rooms.h"

namespace rubato {

namespace {

// The types of the pinned devices, out of `left`; nothing when there are not enough. A job stays on
// its type if it can.
std::optional<DeviceCounts> take_types(const JobState& job, const Cluster& cluster,
                                       DeviceCounts& left) {
  const JobSpec& spec = job.spec;
  const DeviceCounts held = job.allocation.counts(cluster);
  std::vector<std::size_t> types;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (spec.allows(DeviceTypeId(type))) types.push_back(type);
  }
  std::stable_sort(types.begin(), types.end(), [&](std::size_t a, std::size_t b) {
    if (held.of[a] != held.of[b]) return held.of[a] > held.of[b];
    return left.of[a] > left.of[b];
  });
  DeviceCounts taken;
  int missing = spec.pinned_devices;
  for (const std::size_t type : types) {
    if (!spec.mixes_types && left.of[type] < missing) continue;
    taken.of[type] = std::min(missing, left.of[type]);
    missing -= taken.of[type];
    if (missing == 0) break;
  }
  if (missing > 0) return std::nullopt;
  for (const std::size_t type : types) left.of[type] -= taken.of[type];
  return taken;
}

// What the job keeps of its devices, out of `free`.
Room kept_room(const JobState& job, DeviceCounts wanted, const Cluster& cluster, Room& free) {
  Room room(free.size(), 0);
  for (const NodeShare& share : job.allocation.shares) {
    int& left = wanted[cluster.node(share.node).type];
    const std::size_t node = share.node.index();
    const int kept = std::min({share.devices, left, free[node]});
    room[node] += kept;
    free[node] -= kept;
    left -= kept;
  }
  return room;
}

// In the order of the job's present shares, so that a job that keeps its devices does not change.
std::vector<NodeShare> shares_of(const JobState& job, Room room) {
  std::vector<NodeShare> shares;
  for (const NodeShare& share : job.allocation.shares) {
    int& devices = room[share.node.index()];
    if (devices > 0) shares.push_back({share.node, std::exchange(devices, 0)});
  }
  for (std::size_t node = 0; node < room.size(); ++node) {
    if (room[node] > 0) shares.push_back({NodeId(node), room[node]});
  }
  return shares;
}

// A job whose pin is suspended: the policy decides, up to the pinned number.
JobState without_pin(const JobState& job) {
  JobState free = job;
  JobSpec& spec = free.spec;
  spec.max_devices = std::exchange(spec.pinned_devices, 0);
  spec.requested_devices = std::min(spec.requested_devices, spec.max_devices);
  return free;
}

}  // namespace

PinnedPolicy::PinnedPolicy(std::unique_ptr<Policy> policy, TenantRules rules)
    : policy_(std::move(policy)), rules_(std::move(rules)) {}

Plan PinnedPolicy::decide(const PolicyInput& input) {
  const auto is_pinned = [](const JobState* job) { return job->spec.pinned_devices > 0; };
  if (std::none_of(input.jobs.begin(), input.jobs.end(), is_pinned)) return policy_->decide(input);

  std::vector<std::optional<DeviceCounts>> pins(input.jobs.size());
  DeviceCounts left = input.usable_by_type;
  std::map<std::string_view, int> pinned_by_tenant;
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    const JobState& job = *input.jobs[i];
    if (!is_pinned(&job)) continue;
    int& pinned = pinned_by_tenant[job.spec.tenant];
    const auto rule = rules_.find(job.spec.tenant);
    const int quota = rule == rules_.end() ? 0 : rule->second.quota;
    if (quota > 0 && pinned + job.spec.pinned_devices > quota) continue;
    pins[i] = take_types(job, input.cluster, left);
    if (pins[i]) pinned += job.spec.pinned_devices;
  }

  Room free(input.usable.begin(), input.usable.end());
  std::vector<Room> rooms(input.jobs.size());
  for (std::size_t i = 0; i < pins.size(); ++i) {
    if (pins[i]) rooms[i] = kept_room(*input.jobs[i], *pins[i], input.cluster, free);
  }
  std::vector<const JobState*> pinned;
  std::vector<const JobState*> others;
  std::vector<std::size_t> indices;  // of the others
  std::deque<JobState> suspended;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    const JobState* job = input.jobs[i];
    if (pins[i]) {
      take_room(rooms[i], job->spec.pinned_devices - devices(rooms[i]), *pins[i], input.cluster,
                free);
      pinned.push_back(job);
      continue;
    }
    indices.push_back(i);
    others.push_back(is_pinned(job) ? &suspended.emplace_back(without_pin(*job)) : job);
  }

  const JobsInRoom rest(std::move(others), free, input.now_s);
  const DeviceCounts counts = by_type(free, input.cluster);
  Plan own = policy_->decide({.now_s = input.now_s,
                              .cluster = input.cluster,
                              .usable = free,
                              .usable_by_type = counts,
                              .jobs = rest.jobs(),
                              .finished = input.finished,
                              .pinned = pinned,
                              .limit = input.limit});
  if (own.grants.size() != indices.size()) return own;  // the scheduler reports it
  Plan plan = own;
  plan.grants.assign(input.jobs.size(), {});
  plan.placement_order.clear();
  for (std::size_t k = 0; k < indices.size(); ++k) {
    plan.grants[indices[k]] = std::move(own.grants[k]);
  }
  for (std::size_t i = 0; i < pins.size(); ++i) {
    if (!pins[i]) continue;
    const JobState& job = *input.jobs[i];
    Grant& grant = plan.grants[i];
    grant.job = job.spec.id;
    grant.devices = *pins[i];
    grant.batch = job.spec.mode == ElasticMode::kAdaptive ? 0 : job.spec.requested_batch;
    grant.nodes = shares_of(job, std::move(rooms[i]));
    grant.pinned = true;
    if (!own.placement_order.empty()) plan.placement_order.push_back(i);
  }
  for (const std::size_t k : own.placement_order) {
    plan.placement_order.push_back(k < indices.size() ? indices[k] : input.jobs.size());
  }
  return plan;
}

}  // namespace rubato
