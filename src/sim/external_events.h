// Inputs that take devices away from training: node failures and serving load.
#pragma once

#include <string>
#include <vector>

#include "sim/simulator.h"

namespace rubato {

// CSV with columns time (s), node (number from 0), event (down or up).
Result<std::vector<NodeEvent>> read_node_events(const std::string& path, const Cluster& cluster);
// CSV with columns time (s), devices and, on clusters with several types, type. From that time on,
// serving holds that many devices.
Result<std::vector<ServingLoad>> read_serving_load(const std::string& path, const Cluster& cluster);

}  // namespace rubato
