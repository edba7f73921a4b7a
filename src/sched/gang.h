// Serves jobs in a given order at their requested size, as every scheduler without elasticity does.
#pragma once

#include "sched/order.h"

namespace rubato {

enum class WhenFull {
  kStop,  // the first job that does not fit blocks all jobs behind it
  kSkip,  // a job that does not fit waits; jobs behind it may use what is left
};

// Grants each job its requested devices of one type, in the given order, while they last. A running
// job keeps its type if possible; the others get the first allowed type with enough devices left.
// The order must contain every job once. It is also the placement order.
Plan grant_requested(const PolicyInput& input, JobOrder order, WhenFull when_full,
                     PlacementRule placement);
// The same with a given size for each job (parallel to the input's jobs). The job's range must
// allow it.
Plan grant_sizes(const PolicyInput& input, JobOrder order, std::span<const int> sizes,
                 WhenFull when_full, PlacementRule placement);

// The type that has `devices` devices left for this job: its current type if possible, otherwise
// the first allowed one. Invalid if there is none.
DeviceTypeId type_with_room(const JobState& job, int devices, const DeviceCounts& left,
                            const Cluster& cluster);

// A plan with one empty grant per job.
Plan empty_plan(const PolicyInput& input);

}  // namespace rubato
