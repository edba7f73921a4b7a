// Jobs that cannot run here. They were accepted when there were more devices or others, and the
// daemon was restarted or nodes have left since. Such a job is kept: it waits with this reason, can
// be cancelled, and runs when a later start finds enough devices again.
#pragma once

#include <optional>
#include <string>

#include "control/live_cluster.h"
#include "control/state.h"

namespace rubato::control {

inline constexpr const char* kDoesNotFit = "does-not-fit";  // code of this reason to wait

struct Misfit {
  int needs = 0;       // fewest devices that the job can start on
  std::string text{};  // "needs 4 devices, this machine has 2 since its restart"
  std::string remedy{};
};

// Why the job can never run here, if so. Says nothing about what other jobs or quotas allow.
std::optional<Misfit> misfit(const JobRecord& job, const LiveCluster& cluster);

}  // namespace rubato::control
