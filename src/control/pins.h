// Jobs that their owners pinned to a number of devices with `rubato scale`.
//
// A pin is a promise: it is accepted only if the devices can be given now, whatever other jobs hold
// without a pin. Later events may break it: devices are reserved, the daemon is restarted on fewer
// devices, a tenant's quota is lowered. Then the pin is suspended (sched/pinned_policy.h) and comes
// back by itself.
#pragma once

#include <string>

#include "base/result.h"
#include "control/live_cluster.h"
#include "control/state.h"

namespace rubato::control {

// The number that the scheduler is told: what the owner asked for, within what the job can use (its
// program may have said after the pin how many logical workers it has). 0: no pin, or one that this
// cluster can never honour.
int pinned_devices(const JobRecord& job, const LiveCluster& cluster);

// Refuses a pin that cannot be guaranteed, with the numbers that say why. Other tenants' jobs are
// counted but not named; `own` is the caller's tenant, empty for an administrator.
Status check_pin(const JobRecord& job, int devices, const State& state, const LiveCluster& cluster,
                 const std::string& own);

}  // namespace rubato::control
