#include "sched/policies/easyscale_plans.h"

#include <algorithm>

namespace rubato::easyscale {

int workers_of(const JobSpec& spec) {
  return spec.logical_workers > 0 ? spec.logical_workers : spec.requested_devices;
}

void JobPlans::observe(const PolicyInput& input) {
  cluster_ = &input.cluster;
  one_type_.forget(input.finished);
  for (const FinishedJob& job : input.finished) known_.erase(job.id);
}

Outcome JobPlans::outcome(const JobState& job, const DeviceCounts& devices) {
  auto& known = known_[job.spec.id];
  const auto [entry, fresh] = known.try_emplace(devices.of);
  if (fresh) entry->second = compute(job, devices);
  return entry->second;
}

Outcome JobPlans::compute(const JobState& job, const DeviceCounts& devices) {
  const JobSpec& spec = job.spec;
  const int workers = workers_of(spec);
  if (spec.logical_workers == 0 || job.profiled == nullptr) {
    WorkerSeconds alike;
    alike.fill(1.0);
    const DeviceTypeId type = devices.single_type();
    const double waste = split_workers(devices, alike, workers).waste;
    if (!type.valid()) return {split_workers(devices, alike, workers).speed, waste};
    return {1.0 / one_type_.update_s(job, type, devices[type], *cluster_), waste};
  }
  const std::int64_t local = spec.worker_batch();
  const WorkerSplit split =
      split_workers(devices, worker_seconds(*job.profiled, devices, local), workers);
  if (!options_.communication) return {1.0 / split.round_s, split.waste};
  std::vector<int> per_node;
  for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
    const Placement packed = Placement::packed(DeviceTypeId(type), devices.of[type],
                                               cluster_->node_size(DeviceTypeId(type)));
    per_node.insert(per_node.end(), packed.per_node().begin(), packed.per_node().end());
  }
  const WorkerUpdate update = update_of_workers(*job.profiled, devices, per_node, workers, local);
  return {1.0 / update.update_s, split.waste};
}

double JobPlans::allowed_waste(const Holder& holder) {
  double least = 1;
  for (std::size_t type = 0; type < cluster_->type_count(); ++type) {
    if (!holder.may_use(type)) continue;
    DeviceCounts devices;
    const int most = std::min(holder.most, cluster_->capacity().of[type]);
    for (devices.of[type] = holder.smallest; devices.of[type] <= most; ++devices.of[type]) {
      least = std::min(least, outcome(*holder.job, devices).waste);
      if (least <= options_.waste) return options_.waste;
    }
  }
  return least;
}

int JobPlans::smallest_plan(const Holder& holder, std::size_t type) {
  DeviceCounts devices;
  for (int count = holder.smallest; count <= holder.most; ++count) {
    devices.of[type] = count;
    if (!holder.too_wasteful(outcome(*holder.job, devices))) return count;
  }
  return 0;
}

double JobPlans::promise(const Holder& holder, std::size_t type, int devices) {
  double best = 0;
  DeviceCounts counts;
  for (int count = holder.smallest; count <= std::min(holder.most, devices); ++count) {
    counts.of[type] = count;
    const Outcome result = outcome(*holder.job, counts);
    if (!holder.too_wasteful(result)) best = std::max(best, result.speed);
  }
  return best;
}

}  // namespace rubato::easyscale
