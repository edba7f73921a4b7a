// Consolidated placement: puts every job on as few nodes as possible and moves other jobs out of
// the way if necessary.
#pragma once

#include "sched/policy.h"

namespace rubato {

// Chooses the nodes for all grants of a plan. No grant may have fixed nodes yet.
//
// A job stays where it is if its counts did not change and it spans as few nodes as possible. The
// others are placed largest first: on whole free nodes, or on the fullest node that still holds
// them. If no node holds a job, the node that is cheapest to clear of smaller jobs is cleared, and
// those jobs are placed later. If all sizes divide the node size or are multiples of it, every job
// ends up on as few nodes as possible. Other sizes may have to be split, over the emptiest nodes.
// O(jobs x nodes) for each job that moves.
void consolidate(Plan& plan, const PolicyInput& input);

}  // namespace rubato
