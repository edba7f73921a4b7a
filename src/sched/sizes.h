// Jobs that only run on powers of two devices: whatever a policy grants them is cut to one.
#pragma once

#include "sched/policy.h"

namespace rubato {

// Cuts the grants of such jobs to the largest power of two within range; a grant that reaches none
// becomes nothing.
void keep_to_sizes(Plan& plan, const PolicyInput& input);

}  // namespace rubato
