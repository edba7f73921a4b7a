// Jobs that run only on powers of two devices: their grants are cut to a power of two.
#pragma once

#include "sched/policy.h"

namespace rubato {

// Cuts the grants of such jobs to the largest power of two within their range. A grant that reaches
// none becomes empty.
void keep_to_sizes(Plan& plan, const PolicyInput& input);

}  // namespace rubato
