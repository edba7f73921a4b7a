#include "control/machine_fit.h"

#include <fmt/format.h>

#include <bit>

namespace rubato::control {

std::optional<Misfit> misfit(const JobRecord& job, const Machine& machine) {
  Misfit found;
  found.needs = device_range(job).low;
  if (job.document.power_of_two_sizes) {
    found.needs = static_cast<int>(std::bit_ceil(static_cast<unsigned>(found.needs)));
  }
  const std::string id = job_name_of(job.number);
  const std::string& type = job.document.device_type;
  if (!type.empty() && type != machine.type) {
    found.text = fmt::format("needs devices of type '{}', this machine has '{}' since its restart",
                             type, machine.type);
    found.remedy = fmt::format(
        "start the daemon where there are '{}' devices, or cancel it (rubato cancel {}) and submit "
        "it without device_type",
        type, id);
    return found;
  }
  if (found.needs <= machine.devices) return std::nullopt;
  found.text = fmt::format("needs {} devices, this machine has {} since its restart", found.needs,
                           machine.devices);
  found.remedy = fmt::format(
      "it runs when the daemon is started with {} devices or more; or cancel it (rubato cancel {}) "
      "and submit it with at most {}",
      found.needs, id, machine.devices);
  return found;
}

}  // namespace rubato::control
