#include "control/cluster/node_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "control/labels.h"
#include "control/machine.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr int kMostDevices = 4096;
constexpr std::size_t kLongestType = 100;

}  // namespace

json to_json(const LiveNode& node) {
  return {{"name", node.name},
          {"device_type", node.device_type},
          {"devices", node.devices},
          {"labels", node.labels}};
}

Result<LiveNode> live_node_from(const json& object) {
  LiveNode node;
  try {
    object.at("name").get_to(node.name);
    object.at("device_type").get_to(node.device_type);
    object.at("devices").get_to(node.devices);
    object.at("labels").get_to(node.labels);
  } catch (const json::exception&) {
    return invalid_input("a node: expected name, device_type, devices and labels");
  }
  if (const auto problem = node_name_problem(node.name); !problem.empty()) {
    return invalid_input(fmt::format("the name of the node '{}' {}", node.name, problem));
  }
  const auto in_node = [&](const std::string& problem) {
    return invalid_input(fmt::format("node {}: {}", node.name, problem));
  };
  if (node.device_type.empty() || node.device_type.size() > kLongestType) {
    return in_node(fmt::format("device_type: expected 1 to {} bytes", kLongestType));
  }
  if (node.devices < 1 || node.devices > kMostDevices) {
    return in_node(fmt::format("devices: {}; expected 1 to {}", node.devices, kMostDevices));
  }
  if (node.labels.size() > kMostLabels) {
    return in_node(fmt::format("labels: {}; expected at most {}", node.labels.size(), kMostLabels));
  }
  for (const auto& [name, value] : node.labels) {
    const auto label = parse_label(name + "=" + value);
    if (!label.ok()) return in_node("labels: " + label.error().message);
  }
  return node;
}

json to_json(const NodeRecord& record) {
  json object = to_json(record.node);
  object["token_sha256"] = record.token_sha256;
  object["joined_at"] = record.joined_at;
  object["drained_at"] = record.drained_at;
  object["deadline"] = record.deadline;
  object["lost_at"] = record.lost_at;
  object["life"] = record.life;
  return object;
}

Result<NodeRecord> node_record_from(const json& object) {
  auto node = live_node_from(object);
  if (!node.ok()) return node.error();
  try {
    return NodeRecord{.node = std::move(*node),
                      .token_sha256 = object.at("token_sha256").get<std::string>(),
                      .joined_at = object.at("joined_at").get<double>(),
                      .drained_at = object.at("drained_at").get<double>(),
                      .deadline = object.at("deadline").get<double>(),
                      .lost_at = object.at("lost_at").get<double>(),
                      .life = object.at("life").get<std::int64_t>()};
  } catch (const json::exception&) {
    return invalid_input(
        "a node: expected token_sha256, joined_at, drained_at, deadline, lost_at and life");
  }
}

}  // namespace rubato::control
