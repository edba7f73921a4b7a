#include "control/live_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"
#include "control/json_fields.h"
#include "control/state.h"

namespace rubato::control {

LiveNode node_of(const Machine& machine) {
  return {.name = machine.name,
          .device_type = machine.type,
          .devices = machine.devices,
          .labels = machine.labels};
}

nlohmann::json nodes_json(std::span<const LiveNode> nodes) {
  JobPlacement all;
  for (const LiveNode& node : nodes) all.push_back({node.name, node.device_type, node.devices});
  return placement_json(all);
}

std::vector<LiveNode> nodes_of_event(const nlohmann::json& body) {
  std::vector<LiveNode> nodes;
  const Result<JobPlacement> named = placement_from_json(body.value("nodes", nlohmann::json()));
  const auto devices = static_cast<int>(whole_in(body, "devices"));
  for (const NodeDevices& part : named.ok() ? *named : unnamed_placement(devices)) {
    nodes.push_back({.name = part.node, .device_type = part.device_type, .devices = part.devices});
  }
  if (!named.ok() && !nodes.empty()) nodes.front().device_type = text_of(body, "device_type");
  return nodes;
}

LiveCluster::LiveCluster() : LiveCluster(std::vector<LiveNode>{}) {}

LiveCluster::LiveCluster(const Machine& machine)
    : LiveCluster(std::vector<LiveNode>{node_of(machine)}) {}

LiveCluster::LiveCluster(std::vector<LiveNode> nodes, bool keeps_some_together) {
  auto data = std::make_shared<Data>();
  data->keeps_some_together = keeps_some_together;
  std::vector<std::string> types;
  std::vector<Node> numbered;
  for (const LiveNode& node : nodes) {
    const auto type = std::find(types.begin(), types.end(), node.device_type);
    const DeviceTypeId type_id(static_cast<std::size_t>(type - types.begin()));
    if (type == types.end()) types.push_back(node.device_type);
    const NodeId id(numbered.size());
    data->ids[node.name] = id;
    numbered.push_back({.id = id, .type = type_id, .devices = node.devices});
  }
  data->types = join(types, ", ");
  data->cluster = Cluster(std::move(types), std::move(numbered));
  data->nodes = std::move(nodes);
  data_ = std::move(data);
}

Result<LiveCluster> LiveCluster::make(std::vector<LiveNode> nodes, bool keeps_some_together) {
  std::set<std::string_view> names;
  std::set<std::string_view> types;
  for (const LiveNode& node : nodes) {
    const std::string_view problem = node_name_problem(node.name);
    if (!problem.empty()) {
      return invalid_input(fmt::format("the name of node '{}' {}", node.name, problem));
    }
    if (!names.insert(node.name).second) {
      return invalid_input(fmt::format("two nodes have the name {}", node.name));
    }
    if (node.devices < 1) return invalid_input(fmt::format("node {} has no devices", node.name));
    types.insert(node.device_type);
  }
  if (types.size() > kMaxDeviceTypes) {
    return invalid_input(
        fmt::format("the nodes have devices of {} types; a cluster can have at most {}",
                    types.size(), kMaxDeviceTypes));
  }
  return LiveCluster(std::move(nodes), keeps_some_together);
}

bool LiveCluster::has_type(std::string_view device_type) const {
  return data_->cluster.find_type(device_type).valid();
}

bool spans_nodes(const JobDocument& document) {
  return document.program != elastic::ProgramKind::kOpaque;
}

int LiveCluster::most_devices(const JobDocument& document) const {
  const std::string& device_type = document.device_type;
  const bool together = data_->keeps_some_together && !spans_nodes(document);
  const Cluster& cluster = data_->cluster;
  int most = 0;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    const DeviceTypeId id(type);
    if (!device_type.empty() && cluster.type_name(id) != device_type) continue;
    const int devices = together ? cluster.node_size(id) : cluster.capacity()[id];
    most = std::max(most, devices);
  }
  return most;
}

std::string LiveCluster::type_of(const JobRecord& job) const {
  if (!job.document.device_type.empty()) return job.document.device_type;
  if (!job.nodes.empty() && has_type(job.nodes.front().device_type)) {
    return job.nodes.front().device_type;
  }
  return data_->nodes.empty() ? "" : data_->nodes.front().device_type;
}

Allocation LiveCluster::allocation_of(const JobRecord& job) const {
  Allocation allocation{.shares = {}, .batch = job.batch};
  const JobPlacement placement = job.nodes.empty() ? unnamed_placement(job.granted) : job.nodes;
  for (const NodeDevices& part : placement) {
    const auto node = data_->ids.find(part.node);
    if (node == data_->ids.end()) continue;
    const std::string& type = data_->nodes[node->second.index()].device_type;
    if (!part.device_type.empty() && part.device_type != type) continue;
    allocation.shares.push_back({.node = node->second, .devices = part.devices});
  }
  return allocation;
}

JobPlacement LiveCluster::placement_of(const Allocation& allocation) const {
  JobPlacement placement;
  for (const NodeShare& share : allocation.shares) {
    const LiveNode& node = data_->nodes[share.node.index()];
    placement.push_back(
        {.node = node.name, .device_type = node.device_type, .devices = share.devices});
  }
  return placement;
}

std::vector<int> reserved_on(const LiveCluster& cluster, int devices) {
  const std::span<const Node> nodes = cluster.cluster().nodes();
  std::vector<int> reserved(nodes.size(), 0);
  for (std::size_t type = 0; type < cluster.cluster().type_count(); ++type) {
    int left = std::min(devices, cluster.cluster().capacity().of[type]);
    devices -= left;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      if (nodes[i].type != DeviceTypeId(type)) continue;
      reserved[i] = std::min(left, nodes[i].devices);
      left -= reserved[i];
    }
  }
  return reserved;
}

}  // namespace rubato::control
