#include "sched/gang.h"

namespace rubato {

DeviceTypeId type_with_room(const JobState& job, int devices, const DeviceCounts& left,
                            const Cluster& cluster) {
  if (job.running()) {
    const DeviceTypeId current = cluster.node(job.allocation.shares.front().node).type;
    if (left[current] >= devices) return current;
  }
  for (std::size_t i = 0; i < cluster.type_count(); ++i) {
    const DeviceTypeId type(i);
    if (job.spec.allows(type) && left[type] >= devices) return type;
  }
  return {};
}

Plan empty_plan(const PolicyInput& input) {
  Plan plan;
  plan.grants.resize(input.jobs.size());
  for (std::size_t i = 0; i < input.jobs.size(); ++i) plan.grants[i].job = input.jobs[i]->spec.id;
  return plan;
}

Plan grant_requested(const PolicyInput& input, JobOrder order, WhenFull when_full,
                     PlacementRule placement) {
  std::vector<int> sizes;
  sizes.reserve(input.jobs.size());
  for (const JobState* job : input.jobs) sizes.push_back(job->spec.requested_devices);
  return grant_sizes(input, std::move(order), sizes, when_full, placement);
}

Plan grant_sizes(const PolicyInput& input, JobOrder order, std::span<const int> sizes,
                 WhenFull when_full, PlacementRule placement) {
  Plan plan = empty_plan(input);
  plan.placement = placement;
  DeviceCounts left = input.usable_by_type;
  bool blocked = false;
  for (const std::size_t i : order) {
    const JobState& job = *input.jobs[i];
    Grant& grant = plan.grants[i];
    const int wanted = sizes[i];
    const DeviceTypeId type = type_with_room(job, wanted, left, input.cluster);
    if (!type.valid()) {
      grant.waiting = Reason::kWaitsForDevices;
      blocked = blocked || when_full == WhenFull::kStop;
    } else if (blocked) {
      grant.waiting = Reason::kWaitsBehind;
    } else {
      grant.devices[type] = wanted;
      grant.batch = job.spec.requested_batch;
      left[type] -= wanted;
    }
  }
  plan.placement_order = std::move(order);
  return plan;
}

}  // namespace rubato
