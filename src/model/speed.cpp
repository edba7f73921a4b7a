#include "model/speed.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rubato {

Placement::Placement(DeviceTypeId type, std::vector<int> per_node)
    : type_(type),
      per_node_(std::move(per_node)),
      devices_(std::accumulate(per_node_.begin(), per_node_.end(), 0)) {}

Placement Placement::packed(DeviceTypeId type, int devices, int node_size) {
  std::vector<int> per_node;
  for (int left = devices; left > 0; left -= node_size) {
    per_node.push_back(std::min(left, node_size));
  }
  return {type, std::move(per_node)};
}

}  // namespace rubato
