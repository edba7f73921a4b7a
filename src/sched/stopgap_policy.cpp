#include "sched/stopgap_policy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "sched/gang.h"

namespace rubato {

namespace {

// How many of its devices a running job may keep.
int kept(const JobState& job, int most, const Cluster& cluster) {
  const JobSpec& spec = job.spec;
  const DeviceCounts counts = job.allocation.counts(cluster);
  int devices = std::min({counts.total(), spec.max_devices, most});
  if (spec.mode == ElasticMode::kRigid) devices = std::min(devices, spec.requested_devices);
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (counts.of[type] > 0 && !spec.allows(DeviceTypeId(type))) devices = 0;
  }
  if (spec.power_of_two_sizes && spec.mode != ElasticMode::kRigid && devices > 0) {
    devices = static_cast<int>(std::bit_floor(static_cast<unsigned>(devices)));
  }
  return devices < spec.smallest() ? 0 : devices;
}

void keep(const JobState& job, int most, const Cluster& cluster, Grant& grant) {
  int left = kept(job, most, cluster);
  if (left == 0) return;
  grant.nodes.emplace();
  for (const NodeShare& share : job.allocation.shares) {
    const int devices = std::min(share.devices, left);
    if (devices == 0) break;
    grant.nodes->push_back({share.node, devices});
    grant.devices[cluster.node(share.node).type] += devices;
    left -= devices;
  }
  const JobSpec& spec = job.spec;
  const std::int64_t batch = job.allocation.batch;
  const bool allowed = spec.mode == ElasticMode::kAdaptive
                           ? batch >= spec.batch.initial && batch <= spec.batch.max
                           : batch == spec.requested_batch;
  grant.batch = allowed ? batch : 0;
}

}  // namespace

int StopgapPolicy::quota_of(const std::string& tenant) const {
  const auto rule = rules_.find(tenant);
  const bool limited = rule != rules_.end() && rule->second.quota > 0;
  return limited ? rule->second.quota : std::numeric_limits<int>::max();
}

Plan StopgapPolicy::decide(const PolicyInput& input) {
  Plan plan = empty_plan(input);
  DeviceCounts left = input.usable_by_type;
  std::map<std::string_view, int> held;
  for (const JobState* job : input.pinned) held[job->spec.tenant] += job->spec.pinned_devices;
  const JobOrder order = by_priority_then_arrival(input);
  for (const std::size_t i : order) {
    const JobState& job = *input.jobs[i];
    if (!job.running()) continue;
    const int most = quota_of(job.spec.tenant) - held[job.spec.tenant];
    keep(job, most, input.cluster, plan.grants[i]);
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      left.of[type] -= plan.grants[i].devices.of[type];
    }
    held[job.spec.tenant] += plan.grants[i].devices.total();
  }
  bool blocked = false;
  for (const std::size_t i : order) {
    const JobState& job = *input.jobs[i];
    if (job.running()) continue;
    Grant& grant = plan.grants[i];
    const int wanted = job.spec.smallest();
    if (wanted > quota_of(job.spec.tenant) - held[job.spec.tenant]) {
      grant.waiting = Reason::kTenantQuota;
      continue;
    }
    const DeviceTypeId type = type_with_room(job, wanted, left, input.cluster);
    if (blocked || !type.valid()) {
      grant.waiting = type.valid() ? Reason::kWaitsBehind : Reason::kWaitsForDevices;
      blocked = true;
      continue;
    }
    grant.devices[type] = wanted;
    grant.batch = job.spec.mode == ElasticMode::kAdaptive ? 0 : job.spec.requested_batch;
    left[type] -= wanted;
    held[job.spec.tenant] += wanted;
  }
  return plan;
}

}  // namespace rubato
