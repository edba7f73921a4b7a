#include "control/job_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/located_json.h"
#include "base/text.h"

namespace rubato::control {

namespace {

using nlohmann::json;

bool is_node_devices(const json& entry) {
  if (!entry.is_object() || entry.size() != 3) return false;
  const auto node = entry.find("node");
  const auto type = entry.find("device_type");
  const auto devices = entry.find("devices");
  return node != entry.end() && node->is_string() && !node->get_ref<const std::string&>().empty() &&
         type != entry.end() && type->is_string() && devices != entry.end() &&
         devices->is_number_integer() && *devices >= 1 &&
         *devices <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

int devices_on(const JobPlacement& placement) {
  int devices = 0;
  for (const NodeDevices& part : placement) devices += part.devices;
  return devices;
}

JobPlacement unnamed_placement(int devices) {
  if (devices == 0) return {};
  return {{.node = kUnnamedNode, .device_type = "", .devices = devices}};
}

json placement_json(const JobPlacement& placement) {
  json list = json::array();
  for (const NodeDevices& part : placement) {
    list.push_back(
        {{"node", part.node}, {"device_type", part.device_type}, {"devices", part.devices}});
  }
  return list;
}

Result<JobPlacement> placement_from_json(const json& list) {
  if (!list.is_array()) return invalid_input(fmt::format("{}; expected a list", shown(list)));
  JobPlacement placement;
  std::int64_t sum = 0;
  for (const json& entry : list) {
    if (!is_node_devices(entry)) {
      return invalid_input(
          fmt::format("{}; expected node, device_type and devices (1 or more)", shown(entry)));
    }
    NodeDevices part{.node = entry["node"].get<std::string>(),
                     .device_type = entry["device_type"].get<std::string>(),
                     .devices = entry["devices"].get<int>()};
    const bool twice = std::any_of(placement.begin(), placement.end(),
                                   [&](const NodeDevices& one) { return one.node == part.node; });
    if (twice) return invalid_input(fmt::format("node {} is named twice", shown(entry["node"])));
    sum += part.devices;
    if (sum > std::numeric_limits<std::int32_t>::max()) return invalid_input("too many devices");
    placement.push_back(std::move(part));
  }
  return placement;
}

std::string placement_text(const JobPlacement& placement) {
  std::vector<std::string> parts;
  for (const NodeDevices& part : placement) {
    parts.push_back(fmt::format("{} ({})", part.node, part.devices));
  }
  return join(parts, ", ");
}

}  // namespace rubato::control
