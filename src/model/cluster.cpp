#include "model/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace rubato {

int DeviceCounts::total() const { return std::accumulate(of.begin(), of.end(), 0); }

DeviceTypeId DeviceCounts::single_type() const {
  DeviceTypeId found;
  for (std::size_t type = 0; type < of.size(); ++type) {
    if (of[type] == 0) continue;
    if (found.valid()) return {};
    found = DeviceTypeId(type);
  }
  return found;
}

Cluster::Cluster(std::vector<std::string> type_names, std::vector<Node> nodes, Network network)
    : type_names_(std::move(type_names)), nodes_(std::move(nodes)), network_(network) {
  RUBATO_CHECK(type_names_.size() <= kMaxDeviceTypes,
               "more device types than DeviceCounts can hold");
  for (const Node& node : nodes_) {
    capacity_[node.type] += node.devices;
    node_size_[node.type] = std::max(node_size_[node.type], node.devices);
    nodes_of_[node.type] += 1;
  }
}

Result<Cluster> Cluster::parse(std::string_view text) {
  constexpr std::int64_t kMostNodes = 100'000;
  constexpr std::int64_t kMostDevicesPerNode = 1024;
  std::vector<std::string> type_names;
  std::vector<Node> nodes;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    const std::string_view shape = part.substr(0, colon);
    const std::string name(colon == std::string_view::npos ? "gpu" : part.substr(colon + 1));
    const std::size_t cross = shape.find('x');
    const auto count = parse_int(shape.substr(0, cross));
    const auto devices = cross == std::string_view::npos ? std::optional<std::int64_t>()
                                                         : parse_int(shape.substr(cross + 1));
    if (!count || !devices || *count < 1 || *count > kMostNodes || *devices < 1 ||
        *devices > kMostDevicesPerNode || name.empty()) {
      return invalid_input(fmt::format(
          "cluster '{}': '{}' is not NODESxDEVICES[:TYPE] with 1 to {} nodes of 1 to {} devices; "
          "expected something like 16x4 or 6x4:t4,3x8:rtx",
          text, part, kMostNodes, kMostDevicesPerNode));
    }
    auto known = std::find(type_names.begin(), type_names.end(), name);
    if (known == type_names.end()) {
      if (type_names.size() == kMaxDeviceTypes) {
        return invalid_input(
            fmt::format("cluster '{}': more than {} device types", text, kMaxDeviceTypes));
      }
      type_names.push_back(name);
      known = type_names.end() - 1;
    }
    const DeviceTypeId type(static_cast<std::size_t>(known - type_names.begin()));
    for (std::int64_t i = 0; i < *count; ++i) {
      nodes.push_back(
          {.id = NodeId(nodes.size()), .type = type, .devices = static_cast<int>(*devices)});
    }
    if (nodes.size() > static_cast<std::size_t>(kMostNodes)) {
      return invalid_input(fmt::format("cluster '{}': more than {} nodes", text, kMostNodes));
    }
  }
  return Cluster(std::move(type_names), std::move(nodes));
}

DeviceTypeId Cluster::find_type(std::string_view name) const {
  const auto found = std::find(type_names_.begin(), type_names_.end(), name);
  return found == type_names_.end()
             ? DeviceTypeId()
             : DeviceTypeId(static_cast<std::size_t>(found - type_names_.begin()));
}

}  // namespace rubato
