// Orders in which jobs are served. An order is a list of indices into PolicyInput::jobs; ties keep
// order of arrival.
#pragma once

#include <functional>
#include <vector>

#include "sched/policy.h"

namespace rubato {

using JobOrder = std::vector<std::size_t>;

// By priority (urgent first), then arrival.
JobOrder by_priority_then_arrival(const PolicyInput& input);
// By priority, then ascending key.
JobOrder by_key(const PolicyInput& input, const std::function<double(const JobState&)>& key);
// The same order with the running jobs in front: nobody is preempted.
JobOrder running_first(const PolicyInput& input, const JobOrder& order);

}  // namespace rubato
