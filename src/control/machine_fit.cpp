#include "control/machine_fit.h"

#include <fmt/format.h>

#include <bit>

namespace rubato::control {

std::optional<Misfit> misfit(const JobRecord& job, const LiveCluster& cluster) {
  Misfit found;
  found.needs = device_range(job).low;
  if (job.document.power_of_two_sizes) {
    found.needs = static_cast<int>(std::bit_ceil(static_cast<unsigned>(found.needs)));
  }
  const std::string id = job_name_of(job.number);
  const std::string& type = job.document.device_type;
  const char* since = cluster.has_one_node() ? " since its restart" : " now";
  if (!type.empty() && !cluster.has_type(type)) {
    found.text = fmt::format("needs devices of type '{}', {} has '{}'{}", type, cluster.here(),
                             cluster.device_types(), since);
    found.remedy = fmt::format(
        "start the daemon where there are '{}' devices, or cancel it (rubato cancel {}) and submit "
        "it without device_type",
        type, id);
    return found;
  }
  const int most = cluster.most_devices(job.document);
  if (found.needs <= most) return std::nullopt;
  if (cluster.has_one_node()) {
    found.text =
        fmt::format("needs {} devices, this machine has {} since its restart", found.needs, most);
    found.remedy = fmt::format(
        "it runs when the daemon is started with {} devices or more; or cancel it (rubato cancel "
        "{}) and submit it with at most {}",
        found.needs, id, most);
  } else {
    found.text = fmt::format("needs {} devices, the cluster has at most {} of one type now",
                             found.needs, most);
    found.remedy = fmt::format(
        "it runs when there are {} devices or more; or cancel it (rubato cancel {}) and submit it "
        "with at most {}",
        found.needs, id, most);
  }
  return found;
}

}  // namespace rubato::control
