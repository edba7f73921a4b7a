#include "elastic/transport/bridge_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rubato::elastic {

BridgeLayout::BridgeLayout(const View& view, const BoardShape& shape, std::size_t slot_bytes)
    : slot_bytes_(slot_bytes) {
  const auto members = static_cast<int>(view.members.size());
  for (const Member& member : view.members) {
    hosts_.push_back(member.hosts);
    workers_.push_back(member.address.id);
    slices_.push_back(owned_slice(shape.gradient_floats, members, view.position(workers_.back())));
  }
  sums_.resize(hosts_.size());
  for (std::vector<std::size_t>& positions : view.positions_by_node()) {
    NodeShare node{.name = view.members[positions.front()].address.node,
                   .gateway = workers_[positions.front()],
                   .positions = {},
                   .slices = {}};
    for (NodeSum& sum : node_sums(view.logical_workers(), hosts_, positions)) {
      sums_[sum.last()].push_back(std::move(sum));
    }
    for (const std::size_t position : positions) {
      node.gateway = std::min(node.gateway, workers_[position]);
      const Slice slice = slices_[position];
      if (slice.begin == slice.end) continue;
      if (!node.slices.empty() && node.slices.back().end == slice.begin) {
        node.slices.back().end = slice.end;
      } else {
        node.slices.push_back(slice);
      }
    }
    node.positions = std::move(positions);
    nodes_.push_back(std::move(node));
  }
}

const NodeShare* BridgeLayout::find(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const NodeShare& share) { return share.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

std::size_t BridgeLayout::arrived_bytes(std::size_t position, const NodeShare& to) const {
  std::size_t floats = 0;
  for (const Slice& slice : to.slices) floats += slice.end - slice.begin;
  return static_cast<std::size_t>(hosts_[position].size()) * slot_bytes_ +
         sums_[position].size() * floats * sizeof(float);
}

std::size_t BridgeLayout::reduced_bytes(std::size_t position) const {
  return (slices_[position].end - slices_[position].begin) * sizeof(float);
}

int gateway_of(const View& view, const std::string& node) {
  int lowest = -1;
  for (const Member& member : view.members) {
    if (member.address.node != node) continue;
    if (lowest < 0 || member.address.id < lowest) lowest = member.address.id;
  }
  return lowest;
}

bool several_nodes(const View& view) {
  return std::any_of(view.members.begin(), view.members.end(), [&](const Member& member) {
    return member.address.node != view.members.front().address.node;
  });
}

std::string membership_of(const View& view) {
  std::string text = std::to_string(view.number);
  for (const Member& member : view.members) {
    text += fmt::format(" {}@{}:{}-{}", member.address.id, member.address.node, member.hosts.begin,
                        member.hosts.end);
  }
  return text;
}

}  // namespace rubato::elastic
