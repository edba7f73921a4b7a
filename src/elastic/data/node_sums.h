// What the members of one node send to other nodes in a step: the partial sums that they export,
// added up as far as the tree of reduction_tree.h allows. With hosts that are aligned to the tree,
// a node sends one sum instead of one per member. The order of additions stays that of the tree, so
// the bits stay the same.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "elastic/data/logical_range.h"
#include "elastic/data/reduction_tree.h"

namespace rubato::elastic {

struct NodeSum {
  // A sum that a member exports: buffer `buffer` of the member at `position` of the view.
  struct Source {
    std::size_t position = 0;
    int buffer = 0;
  };
  LogicalRange range;           // a node of the tree
  std::vector<Source> sources;  // the sums over its parts, in their order
  SumProgram program;           // adds up `sources`

  // The members publish in the order of their positions, so the sum exists once this one has.
  std::size_t last() const { return sources.back().position; }
  // Where another node keeps the sum: in its mirror of this member's buffer.
  const Source& place() const { return sources.front(); }
};

// `hosts` says what the member at each position of the view hosts; they partition
// [0, logical_workers) in this order. `positions` are those of one node's members, ascending.
std::vector<NodeSum> node_sums(int logical_workers, std::span<const LogicalRange> hosts,
                               std::span<const std::size_t> positions);

}  // namespace rubato::elastic
