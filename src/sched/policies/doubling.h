// Sizes that are powers of two, for the policies `mip` and `greedy`. A size is counted in units; a
// unit is a device or a whole node.
#pragma once

#include <vector>

#include "sched/policy.h"

namespace rubato {

class Doubling {
 public:
  enum class Unit { kDevice, kNode };

  // If the unit is a node, only nodes that are entirely usable now and have the largest size of
  // their type count.
  Doubling(const PolicyInput& input, Unit unit);

  // Usable units of a type.
  int capacity(DeviceTypeId type) const { return capacity_[type]; }
  // The powers of two within the job's range (at its requested batch) and the usable units,
  // ascending. A rigid job, or a job whose range contains no power of two, has a single size: its
  // smallest. Never empty.
  std::vector<int> sizes(const JobSpec& spec, DeviceTypeId type) const;
  // The number of devices that this size means for the job.
  int devices(const JobSpec& spec, DeviceTypeId type, int size) const;
  // The number of units that the job holds now.
  int current(const JobState& job) const;
  // A type for every job, by index. Running jobs keep theirs. The others, in order of arrival, get
  // the allowed type that has the most room left after the smallest sizes of all earlier jobs.
  // Invalid if no type could hold the job now.
  std::vector<DeviceTypeId> assign_types() const;
  // The type on which a running job runs.
  DeviceTypeId type_of(const JobState& job) const;

 private:
  int unit_devices(DeviceTypeId type) const;

  const PolicyInput& input_;
  Unit unit_;
  DeviceCounts capacity_;
};

// The parameter `unit`.
ParamSpec unit_param();
Doubling::Unit unit_of(const Params& params);

}  // namespace rubato
