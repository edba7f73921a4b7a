// What must hold of a cluster's history, whatever happened to it.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "elastic/job/view.h"

namespace rubato::cluster {

// No node ever gives more devices than it has, by the daemon's events of what jobs hold.
std::string check_devices(const std::vector<nlohmann::json>& events,
                          const std::map<std::string, int>& devices);

// No two views of a job train, by the views in its registry and a trace of its updates (TOY_TRACE):
//   - a worker that left in a planned change makes no update of the next view's first step, or
//   later
//   - after a view without a worker was committed because of a failure or a restart, this worker
//     makes at most the update that was under way. If no node of a view is in the daemon's reach
//     when the job begins again elsewhere, its workers may go on in vain until they hear of it, and
//     nothing of what they do is taken. So may those of a view on one node.
// `folder` has the job's registry. Returns the problem, or "".
struct Committed {
  elastic::View view;
  double at = 0;  // unix seconds
};
std::string check_views(const std::vector<Committed>& views, const std::string& trace,
                        std::int64_t steps, const std::vector<nlohmann::json>& events);
std::string check_views(const std::string& folder, const std::string& trace, std::int64_t steps,
                        const std::vector<nlohmann::json>& events);

}  // namespace rubato::cluster
