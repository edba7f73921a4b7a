// Sizes that double: what `mip` and `greedy` give. A size counts units, which are devices or whole
// nodes.
#pragma once

#include <vector>

#include "sched/policy.h"

namespace rubato {

class Doubling {
 public:
  enum class Unit { kDevice, kNode };

  // With whole nodes, only nodes count that are entirely usable now, and only those of the largest
  // size of their type.
  Doubling(const PolicyInput& input, Unit unit);

  // Usable units of a type.
  int capacity(DeviceTypeId type) const { return capacity_[type]; }
  // Powers of two within the job's range (at its requested batch) and the usable units, ascending;
  // a rigid job and one whose range holds no power of two have a single size, the smallest. Never
  // empty.
  std::vector<int> sizes(const JobSpec& spec, DeviceTypeId type) const;
  // Devices that a size means for this job.
  int devices(const JobSpec& spec, DeviceTypeId type, int size) const;
  // Units that the job holds now.
  int current(const JobState& job) const;
  // A type for every job, by index: running jobs keep theirs; others, in order of arrival, get the
  // allowed type with most room left beyond the smallest sizes of the jobs before. Invalid when no
  // type could hold the job now.
  std::vector<DeviceTypeId> assign_types() const;
  // Where a job that runs is.
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
