// The example of docs/writing-a-policy.md.
#pragma once

#include "sched/policy.h"

namespace rubato {

PolicyInfo equal_share_policy();

}  // namespace rubato
