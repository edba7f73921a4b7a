// One function per policy: its registration. Each is defined in the policy's own file.
#pragma once

#include "sched/policy.h"

namespace rubato {

PolicyInfo fifo_policy();
PolicyInfo fifo_backfill_policy();
PolicyInfo srtf_policy();
PolicyInfo srsf_policy();
PolicyInfo tiresias_policy();
PolicyInfo gittins_policy();
PolicyInfo optimus_policy();
PolicyInfo afs_policy();
PolicyInfo pollux_policy();
PolicyInfo elastic_dp_policy();
PolicyInfo fixed_batch_policy();
PolicyInfo elastic_tiresias_policy();
PolicyInfo ones_policy();
PolicyInfo mip_policy();
PolicyInfo greedy_policy();
PolicyInfo easyscale_policy();
PolicyInfo yarn_cs_policy();
PolicyInfo sia_policy();
PolicyInfo rubato_policy();

// The parameter `placement` that most policies share.
ParamSpec placement_param(PlacementRule default_rule);
PlacementRule placement_rule(const Params& params);

}  // namespace rubato
