// What a policy can predict about a job's speed at its requested batch from profiled step times.
#pragma once

#include <unordered_map>
#include <vector>

#include "sched/policy.h"

namespace rubato {

// Seconds per update and samples per second by device count, memoised per job. Placements are
// assumed packed on as few nodes as possible. A job without profiled times is assumed to scale
// perfectly; one with logical workers keeps their micro-batches.
class RequestedBatchSpeed {
 public:
  // `devices` must be at least 1.
  Seconds update_s(const JobState& job, DeviceTypeId type, int devices, const Cluster& cluster);
  // The same on given devices; not memoised.
  Seconds update_s(const JobState& job, const Placement& placement) const;
  // Updates per second relative to one device; 0 for 0 devices.
  double speed(const JobState& job, DeviceTypeId type, int devices, const Cluster& cluster);
  // Forgets jobs that ended.
  void forget(std::span<const FinishedJob> finished);

 private:
  // By job, then by type, then by devices; 0: not computed yet.
  std::unordered_map<JobId, std::array<std::vector<Seconds>, kMaxDeviceTypes>> update_s_;
};

// The most devices a policy that leaves the batch alone can use: no micro-batch below the smallest,
// no device without a logical worker.
int most_devices_at_requested_batch(const JobSpec& spec);

}  // namespace rubato
