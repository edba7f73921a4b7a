// The control groups of this process, of version 1, 2, or both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/doctor/machine_view.h"

namespace rubato::control::doctor {

struct Cgroups {
  enum class Version { kNone, kV1, kHybrid, kV2 };
  Version version = Version::kNone;
  std::vector<std::string> controllers;  // of version 2
  std::string own_folder;                // in which this process would create groups
};
Cgroups find_cgroups(const MachineView& view);

// The tightest limit on this process's groups; nothing where there is none.
std::optional<double> cpu_limit(const MachineView& view);
std::optional<double> memory_limit_bytes(const MachineView& view);

}  // namespace rubato::control::doctor
