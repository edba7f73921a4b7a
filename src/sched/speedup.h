// What a policy can predict from profiled step times about a job's speed at its requested batch.
#pragma once

#include <unordered_map>
#include <vector>

#include "sched/policy.h"

namespace rubato {

// Seconds per update and relative speed by device count, memoised per job. Placements are assumed
// to be packed on as few nodes as possible. A job without profiled times is assumed to scale
// perfectly. A job with logical workers keeps their micro-batches.
class RequestedBatchSpeed {
 public:
  // `devices` must be at least 1.
  Seconds update_s(const JobState& job, DeviceTypeId type, int devices, const Cluster& cluster);
  // The same on a given placement; not memoised.
  Seconds update_s(const JobState& job, const Placement& placement) const;
  // Updates per second relative to one device; 0 for 0 devices.
  double speed(const JobState& job, DeviceTypeId type, int devices, const Cluster& cluster);
  // Forgets jobs that ended.
  void forget(std::span<const FinishedJob> finished);

 private:
  // By job, then type, then device count; 0: not computed yet.
  std::unordered_map<JobId, std::array<std::vector<Seconds>, kMaxDeviceTypes>> update_s_;
};

// The most devices that a policy can use without changing the batch: no micro-batch below the
// smallest allowed, no device without a logical worker.
int most_devices_at_requested_batch(const JobSpec& spec);

}  // namespace rubato
