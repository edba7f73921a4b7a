// Turns granted counts into nodes. Separate from the policies: order, size and place are three
// questions.
#pragma once

#include <span>
#include <vector>

#include "sched/policy.h"

namespace rubato {

// A job whose allocation changes.
struct PlacementChange {
  std::size_t job = 0;  // index into the plan's grants
  Allocation after;
};

// The changes that lead from the jobs' current allocations to the (valid) plan. Grants with fixed
// nodes are placed first; jobs whose counts did not change keep their nodes where those are still
// free; the others are placed in the plan's placement order. Every grant can be placed: devices of
// a type are interchangeable. With kBestFit a resized job keeps what it has and grows or shrinks
// around it, unless starting afresh spans fewer nodes. With kMostFree it is placed afresh.
std::vector<PlacementChange> place(const Plan& plan, const PolicyInput& input);

// What jobs (in order of arrival) keep where nodes have fewer usable devices than jobs hold: the
// newest job loses the surplus first, pinned jobs after all others. One that may not run on what is
// left loses everything; the others go on, smaller. Changed jobs only, in that order.
std::vector<PlacementChange> fit_to_usable(std::span<const JobState* const> jobs,
                                           std::span<const int> usable);

}  // namespace rubato
