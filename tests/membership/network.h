// The links between the nodes of the simulated world.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rubato::elastic::membership::sim {

using Micros = std::int64_t;

// A connection or stream that hears nothing for this long is dead.
inline constexpr Micros kFailureTimeout = 2'000'000;

class Network {
 public:
  explicit Network(int nodes)
      : nodes_(nodes), links_(static_cast<std::size_t>(nodes) * static_cast<std::size_t>(nodes)) {}

  int nodes() const { return nodes_; }
  // Until when nothing gets from one node to the other; what was sent then arrives after that,
  // unless the connection is given up.
  Micros cut_until(int from, int to) const { return from == to ? 0 : at(from, to).cut_until; }
  Micros slow_until(int from, int to) const { return at(from, to).slow_until; }
  void cut(int from, int to, Micros until) {
    Micros& known = at(from, to).cut_until;
    known = std::max(known, until);
  }
  // Until when a node does not reach the registry.
  Micros registry_cut_until(int node) const { return at(node, node).cut_until; }
  void cut_registry(int node, Micros until) { cut(node, node, until); }
  void slow(int from, int to, Micros until) { at(from, to).slow_until = until; }

 private:
  struct Link {
    Micros cut_until = 0;
    Micros slow_until = 0;
  };
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(nodes_) +
           static_cast<std::size_t>(to);
  }
  const Link& at(int from, int to) const { return links_[index(from, to)]; }
  Link& at(int from, int to) { return links_[index(from, to)]; }

  int nodes_;
  std::vector<Link> links_;  // a node's link to itself is its way to the registry
};

}  // namespace rubato::elastic::membership::sim
