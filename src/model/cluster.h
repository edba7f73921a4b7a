// What is shared: device types, nodes, and the network between them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace rubato {

// A cluster with more types is refused. The limit keeps DeviceCounts a plain value.
inline constexpr std::size_t kMaxDeviceTypes = 8;

// Number of devices of each type.
struct DeviceCounts {
  std::array<int, kMaxDeviceTypes> of{};

  int& operator[](DeviceTypeId type) { return of[type.index()]; }
  int operator[](DeviceTypeId type) const { return of[type.index()]; }
  int total() const;
  // The only type with devices. Invalid if there is none or more than one.
  DeviceTypeId single_type() const;
  bool operator==(const DeviceCounts&) const = default;
};

// One level of the network: between devices of a node, nodes of a rack, racks of the cluster.
struct NetworkTier {
  double bytes_per_s = 0;
  Seconds latency_s = 0;
};

struct Network {
  NetworkTier within_node{.bytes_per_s = 12e9, .latency_s = 10e-6};
  NetworkTier within_rack{.bytes_per_s = 3e9, .latency_s = 30e-6};
  NetworkTier across_racks{.bytes_per_s = 1.2e9, .latency_s = 60e-6};
};

// A machine with devices of one type. A machine with two types is described as two nodes.
struct Node {
  NodeId id;
  DeviceTypeId type;
  int devices = 0;
  int rack = 0;
};

// Immutable. Nodes and types are numbered from 0 in the order in which they were described.
class Cluster {
 public:
  Cluster() = default;
  Cluster(std::vector<std::string> type_names, std::vector<Node> nodes, Network network = {});

  // "16x4" (16 nodes of 4 devices) or "6x4:t4,3x8:rtx,2x8:a100" (several types). A type without a
  // name is called "gpu".
  static Result<Cluster> parse(std::string_view text);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[id.index()]; }
  std::size_t type_count() const { return type_names_.size(); }
  const std::string& type_name(DeviceTypeId type) const { return type_names_[type.index()]; }
  // Invalid id if there is no such type.
  DeviceTypeId find_type(std::string_view name) const;
  const DeviceCounts& capacity() const { return capacity_; }
  int devices() const { return capacity_.total(); }
  // Devices in the largest node of this type.
  int node_size(DeviceTypeId type) const { return node_size_[type]; }
  int nodes_of(DeviceTypeId type) const { return nodes_of_[type]; }
  const Network& network() const { return network_; }

 private:
  std::vector<std::string> type_names_;
  std::vector<Node> nodes_;
  Network network_;
  DeviceCounts capacity_;
  DeviceCounts node_size_;
  DeviceCounts nodes_of_;
};

}  // namespace rubato
