// Jobs that run only on powers of two devices: their grants are cut to a power of two.
#pragma once

#include "sched/policy.h"

namespace rubato {

// Cuts the grants of such jobs to the next power of two below. Their ranges begin with one
// (JobSpec::round_to_sizes), so a grant that reaches none is below the range: a fault of the plan.
void keep_to_sizes(Plan& plan, const PolicyInput& input);

}  // namespace rubato
