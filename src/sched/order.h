// Orders in which jobs are served. An order is a list of indices into PolicyInput::jobs. Ties are
// broken by arrival.
#pragma once

#include <functional>
#include <vector>

#include "sched/policy.h"

namespace rubato {

using JobOrder = std::vector<std::size_t>;

// By priority (most urgent first), then by arrival.
JobOrder by_priority_then_arrival(const PolicyInput& input);
// By priority, then by ascending key.
JobOrder by_key(const PolicyInput& input, const std::function<double(const JobState&)>& key);
// The same order with the running jobs first, so that no job is preempted.
JobOrder running_first(const PolicyInput& input, const JobOrder& order);

}  // namespace rubato
