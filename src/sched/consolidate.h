// Consolidated placement: every job on as few nodes as possible, moving others out of the way where
// that is needed.
#pragma once

#include "sched/policy.h"

namespace rubato {

// Fixes the nodes of all grants of a plan that has none fixed yet.
//
// Jobs whose counts did not change and that are on as few nodes as possible stay. The others are
// placed largest first: on whole free nodes, or on the fullest node that still holds them. Where
// nothing holds a job, the node that is cheapest to clear of smaller jobs is cleared; those are
// placed later. With sizes that divide the node size, and multiples of it, every job ends on as few
// nodes as possible; other sizes may have to be split, then over the emptiest nodes. O(jobs x
// nodes) for each job that moves.
void consolidate(Plan& plan, const PolicyInput& input);

}  // namespace rubato
