#include "sched/speedup.h"

#include <algorithm>

#include "model/logical_workers.h"

namespace rubato {

Seconds RequestedBatchSpeed::update_s(const JobState& job, DeviceTypeId type, int devices,
                                      const Cluster& cluster) {
  std::vector<Seconds>& known = update_s_[job.spec.id][type.index()];
  const auto slot = static_cast<std::size_t>(devices);
  if (known.size() <= slot) known.resize(std::max(slot + 1, 2 * known.size()), 0.0);
  if (known[slot] > 0) return known[slot];
  known[slot] = update_s(job, Placement::packed(type, devices, cluster.node_size(type)));
  return known[slot];
}

Seconds RequestedBatchSpeed::update_s(const JobState& job, const Placement& placement) const {
  if (job.profiled == nullptr) return 1.0 / placement.devices();
  if (job.spec.logical_workers > 0) {
    DeviceCounts counts;
    counts[placement.type()] = placement.devices();
    return update_of_workers(*job.profiled, counts, placement.per_node(), job.spec.logical_workers,
                             job.spec.worker_batch())
        .update_s;
  }
  const BatchShape shape = job.spec.batch.known() ? split_batch(job.spec.requested_batch,
                                                                placement.devices(), job.spec.batch)
                                                  : BatchShape{};
  return job.profiled->step_time(placement, shape.local).update_s(shape);
}

double RequestedBatchSpeed::speed(const JobState& job, DeviceTypeId type, int devices,
                                  const Cluster& cluster) {
  if (devices == 0) return 0;
  return update_s(job, type, 1, cluster) / update_s(job, type, devices, cluster);
}

void RequestedBatchSpeed::forget(std::span<const FinishedJob> finished) {
  for (const FinishedJob& job : finished) update_s_.erase(job.id);
}

int most_devices_at_requested_batch(const JobSpec& spec) {
  if (spec.mode == ElasticMode::kRigid) return spec.requested_devices;
  if (spec.logical_workers > 0) {
    return std::max(spec.min_devices, std::min(spec.max_devices, spec.logical_workers));
  }
  if (!spec.batch.known()) return spec.max_devices;
  const std::int64_t by_batch =
      std::max<std::int64_t>(1, spec.requested_batch / spec.batch.min_local);
  return static_cast<int>(
      std::max<std::int64_t>(spec.min_devices, std::min<std::int64_t>(spec.max_devices, by_batch)));
}

}  // namespace rubato
