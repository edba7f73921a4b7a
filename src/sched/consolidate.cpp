#include "sched/consolidate.h"

#include <algorithm>
#include <queue>

namespace rubato {

namespace {

class Consolidator {
 public:
  Consolidator(Plan& plan, const PolicyInput& input)
      : plan_(plan),
        input_(input),
        free_(input.usable.begin(), input.usable.end()),
        small_(input.usable.size()) {}

  void run() {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < plan_.grants.size(); ++i) {
      Grant& grant = plan_.grants[i];
      if (grant.devices.total() == 0) continue;
      if (stays(i)) {
        settle(i, input_.jobs[i]->allocation.shares);
      } else {
        waiting.push_back(i);
      }
    }
    const auto smaller = [&](std::size_t a, std::size_t b) {
      const int size_a = plan_.grants[a].devices.total();
      const int size_b = plan_.grants[b].devices.total();
      return size_a != size_b ? size_a < size_b : a > b;
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(smaller)> queue(
        smaller, std::move(waiting));
    while (!queue.empty()) {
      const std::size_t i = queue.top();
      queue.pop();
      for (const std::size_t moved : place(i)) queue.push(moved);
    }
  }

 private:
  int size(std::size_t i) const { return plan_.grants[i].devices.total(); }

  bool stays(std::size_t i) const {
    const Allocation& current = input_.jobs[i]->allocation;
    const Grant& grant = plan_.grants[i];
    if (current.empty() || grant.devices != current.counts(input_.cluster)) return false;
    const DeviceTypeId type = grant.devices.single_type();
    if (!type.valid()) return false;
    const int node = input_.cluster.node_size(type);
    const auto fewest = static_cast<std::size_t>((size(i) + node - 1) / node);
    return current.shares.size() <= fewest &&
           std::all_of(current.shares.begin(), current.shares.end(), [&](const NodeShare& share) {
             return free_[share.node.index()] >= share.devices;
           });
  }

  void settle(std::size_t i, std::vector<NodeShare> shares) {
    for (const NodeShare& share : shares) {
      free_[share.node.index()] -= share.devices;
      if (shares.size() == 1) small_[share.node.index()].push_back(i);
    }
    plan_.grants[i].nodes = std::move(shares);
  }

  // Whether a job of unchanged size keeps its nodes: they are still free, and it cannot span fewer
  // nodes without displacing other jobs. Moving it otherwise would cost it a pause, round after
  // round.
  bool keeps_nodes(std::size_t i) const {
    const Allocation& current = input_.jobs[i]->allocation;
    const Grant& grant = plan_.grants[i];
    if (current.empty() || grant.devices != current.counts(input_.cluster)) return false;
    const bool free = std::all_of(
        current.shares.begin(), current.shares.end(),
        [&](const NodeShare& share) { return free_[share.node.index()] >= share.devices; });
    if (!free) return false;
    std::vector<NodeShare> better;
    int left = size(i);
    while (left > 0 && better.size() + 1 < current.shares.size()) {
      const NodeId node = best_node(grant.devices.single_type(), left, better);
      if (!node.valid()) break;
      better.push_back({node, std::min(left, free_[node.index()])});
      left -= better.back().devices;
    }
    return left > 0;
  }

  // Places one job and returns the jobs that it displaced.
  std::vector<std::size_t> place(std::size_t i) {
    std::vector<std::size_t> evicted;
    if (keeps_nodes(i)) {
      settle(i, input_.jobs[i]->allocation.shares);
      return evicted;
    }
    std::vector<NodeShare> shares;
    const DeviceTypeId type = plan_.grants[i].devices.single_type();
    for (int left = size(i); left > 0;) {
      NodeId node = best_node(type, left, shares);
      if (!node.valid()) {
        node = cheapest_to_clear(i, type, left, shares);
        if (node.valid()) {
          clear(node, std::min(left, usable(node)), evicted);
        } else {
          node = emptiest(type, shares);
        }
      }
      const int taken = std::min(left, free_[node.index()]);
      RUBATO_CHECK(taken > 0, "a valid plan cannot be placed");
      shares.push_back({node, taken});
      left -= taken;
    }
    std::sort(shares.begin(), shares.end(),
              [](const NodeShare& a, const NodeShare& b) { return a.node < b.node; });
    settle(i, std::move(shares));
    return evicted;
  }

  int usable(NodeId node) const { return input_.usable[node.index()]; }

  static bool holds(const std::vector<NodeShare>& shares, NodeId node) {
    return std::any_of(shares.begin(), shares.end(),
                       [&](const NodeShare& share) { return share.node == node; });
  }

  // The fullest node that holds everything that is left, or a whole free node if the job needs more
  // than one.
  NodeId best_node(DeviceTypeId type, int left, const std::vector<NodeShare>& shares) const {
    NodeId best;
    for (const Node& node : input_.cluster.nodes()) {
      const int free = free_[node.id.index()];
      const int wanted = std::min(left, usable(node.id));
      if (node.type != type || free == 0 || free < wanted || holds(shares, node.id)) continue;
      if (wanted < left && usable(node.id) < input_.cluster.node_size(type)) continue;
      if (!best.valid() || free < free_[best.index()]) best = node.id;
    }
    return best;
  }

  // The node that has enough devices once all jobs smaller than this one leave, with the fewest
  // devices to move.
  NodeId cheapest_to_clear(std::size_t i, DeviceTypeId type, int left,
                           const std::vector<NodeShare>& shares) const {
    NodeId best;
    int best_moved = 0;
    for (const Node& node : input_.cluster.nodes()) {
      const int wanted = std::min(left, usable(node.id));
      if (node.type != type || wanted == 0 || holds(shares, node.id)) continue;
      if (wanted < left && usable(node.id) < input_.cluster.node_size(type)) continue;
      int free = free_[node.id.index()];
      int moved = 0;
      for (const std::size_t other : small_[node.id.index()]) {
        if (size(other) >= size(i)) continue;
        free += size(other);
        moved += size(other);
      }
      if (free < wanted || (best.valid() && moved >= best_moved)) continue;
      best = node.id;
      best_moved = moved;
    }
    return best;
  }

  void clear(NodeId node, int wanted, std::vector<std::size_t>& evicted) {
    std::vector<std::size_t>& residents = small_[node.index()];
    std::stable_sort(residents.begin(), residents.end(),
                     [&](std::size_t a, std::size_t b) { return size(a) < size(b); });
    while (free_[node.index()] < wanted && !residents.empty()) {
      const std::size_t other = residents.front();
      residents.erase(residents.begin());
      free_[node.index()] += size(other);
      plan_.grants[other].nodes.reset();
      evicted.push_back(other);
    }
  }

  NodeId emptiest(DeviceTypeId type, const std::vector<NodeShare>& shares) const {
    NodeId best;
    for (const Node& node : input_.cluster.nodes()) {
      if (node.type != type || holds(shares, node.id)) continue;
      if (!best.valid() || free_[node.id.index()] > free_[best.index()]) best = node.id;
    }
    RUBATO_CHECK(best.valid(), "a valid plan cannot be placed");
    return best;
  }

  Plan& plan_;
  const PolicyInput& input_;
  std::vector<int> free_;
  std::vector<std::vector<std::size_t>> small_;  // jobs that are on this node only
};

}  // namespace

void consolidate(Plan& plan, const PolicyInput& input) { Consolidator(plan, input).run(); }

}  // namespace rubato
