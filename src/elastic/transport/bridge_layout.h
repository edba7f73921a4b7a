// Which node of a view hosts, owns and sends what: a pure function of the view.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "elastic/data/node_sums.h"
#include "elastic/job/view.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

struct NodeShare {
  std::string name;
  int gateway = -1;                    // the member that runs the node's bridge: the lowest id
  std::vector<std::size_t> positions;  // of its members in the view
  std::vector<Slice> slices;  // slices of the gradient that its members own; merged where adjacent
};

class BridgeLayout {
 public:
  BridgeLayout(const View& view, const BoardShape& shape, std::size_t slot_bytes);

  const std::vector<NodeShare>& nodes() const { return nodes_; }
  const NodeShare* find(const std::string& name) const;
  // Payload sizes: of the member at a position, to a node.
  std::size_t arrived_bytes(std::size_t position, const NodeShare& to) const;
  // What follows the member's arrival: those sums of its node that exist now that it has arrived.
  const std::vector<NodeSum>& sums(std::size_t position) const { return sums_[position]; }
  std::size_t reduced_bytes(std::size_t position) const;
  LogicalRange hosts(std::size_t position) const { return hosts_[position]; }
  Slice slice(std::size_t position) const { return slices_[position]; }
  int worker(std::size_t position) const { return workers_[position]; }

 private:
  std::vector<NodeShare> nodes_;
  std::vector<std::vector<NodeSum>> sums_;
  std::vector<LogicalRange> hosts_;
  std::vector<Slice> slices_;
  std::vector<int> workers_;
  std::size_t slot_bytes_;
};

// The member that runs the bridge of a node in a view; -1 if none of the node's workers is a
// member.
int gateway_of(const View& view, const std::string& node);
bool several_nodes(const View& view);
// Identifies a membership: equal for two views with equal number, members and hosting.
std::string membership_of(const View& view);

}  // namespace rubato::elastic
