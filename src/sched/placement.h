// Turns granted counts into nodes. This is separate from the policies: order, size and placement
// are three independent questions.
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

// The changes that lead from the jobs' current allocations to the plan, which must be valid. Grants
// with fixed nodes are placed first. Jobs whose counts did not change keep their nodes if those are
// still free. The others are placed in the plan's placement order. Every grant can be placed,
// because devices of one type are interchangeable. With kBestFit, a resized job keeps what it has
// and grows or shrinks around it, unless a fresh placement spans fewer nodes. With kMostFree, it is
// always placed afresh.
std::vector<PlacementChange> place(const Plan& plan, const PolicyInput& input);

// What jobs (in order of arrival) keep where nodes have fewer usable devices than jobs hold: the
// jobs of the lowest priority lose the surplus first, of those the newest, pinned jobs after all
// others (the newest first, whatever their priority). One that may not run on what is left loses
// everything; the others go on, smaller. Changed jobs only, in that order.
std::vector<PlacementChange> fit_to_usable(std::span<const JobState* const> jobs,
                                           std::span<const int> usable);

}  // namespace rubato
