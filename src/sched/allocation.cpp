#include "sched/allocation.h"

namespace rubato {

int Allocation::devices() const {
  int total = 0;
  for (const NodeShare& share : shares) total += share.devices;
  return total;
}

DeviceCounts Allocation::counts(const Cluster& cluster) const {
  DeviceCounts counts;
  for (const NodeShare& share : shares) counts[cluster.node(share.node).type] += share.devices;
  return counts;
}

Placement Allocation::placement(const Cluster& cluster) const {
  std::vector<int> per_node;
  per_node.reserve(shares.size());
  for (const NodeShare& share : shares) per_node.push_back(share.devices);
  return {shares.empty() ? DeviceTypeId() : cluster.node(shares.front().node).type,
          std::move(per_node)};
}

}  // namespace rubato
