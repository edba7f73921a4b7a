// The worker's side of elastic/launch/warm_parent.h, for programs in C++. python/rubato/_warm.py is
// the one for Python.
#pragma once

namespace rubato::elastic {

// In a worker that was executed: leaves a copy of the process behind, from which the launcher forks
// others. Returns at once in the worker, and once in every worker that is forked, with its own
// environment and output. Does nothing without a launcher, in a process that has threads or has
// opened a GPU, and if a wrapper script is the launcher's child.
void leave_warm_copy();

// In a worker that leaves no copy.
void turn_down_warm_offer();

}  // namespace rubato::elastic
