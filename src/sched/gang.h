// Serving jobs at their requested size, in a given order: what every scheduler without elasticity
// does.
#pragma once

#include "sched/order.h"

namespace rubato {

enum class WhenFull {
  kStop,  // the first job that does not fit blocks all behind it
  kSkip,  // it waits, jobs behind it may use what is left
};

// Grants each job of the order its requested devices of one type while they last. A running job
// keeps its type; others get the first allowed type with enough left. The order must contain every
// job once; it is also the placement order.
Plan grant_requested(const PolicyInput& input, JobOrder order, WhenFull when_full,
                     PlacementRule placement);
// The same with a size per job (parallel to the input's jobs) that its range must allow.
Plan grant_sizes(const PolicyInput& input, JobOrder order, std::span<const int> sizes,
                 WhenFull when_full, PlacementRule placement);

// The type on which `devices` more devices are left for this job: its current one if possible, else
// the first allowed; invalid when there is none.
DeviceTypeId type_with_room(const JobState& job, int devices, const DeviceCounts& left,
                            const Cluster& cluster);

// A plan with one empty grant per job.
Plan empty_plan(const PolicyInput& input);

}  // namespace rubato
