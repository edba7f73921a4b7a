// Where the devices of a job are: on which nodes, of which type, and how many. Nodes have names
// here, because a job outlives the numbers that a scheduler gives them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::control {

struct NodeDevices {
  std::string node;  // its name
  std::string device_type;
  int devices = 0;
  bool operator==(const NodeDevices&) const = default;
};

// In the order in which they were granted. No node is named twice, and each has devices.
using JobPlacement = std::vector<NodeDevices>;

int devices_on(const JobPlacement& placement);

// The node of a time when the log did not name any: the machine of the daemon.
inline constexpr const char* kUnnamedNode = "local";
// Devices of which nobody recorded where they are: all on that node. Empty for 0 devices.
JobPlacement unnamed_placement(int devices);

// [{"node": "gpu1", "device_type": "a100", "devices": 4}], and back.
nlohmann::json placement_json(const JobPlacement& placement);
Result<JobPlacement> placement_from_json(const nlohmann::json& list);
// "gpu1 (4), gpu2 (2)"
std::string placement_text(const JobPlacement& placement);

}  // namespace rubato::control
