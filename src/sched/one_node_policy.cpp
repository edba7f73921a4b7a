#include "sched/one_node_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sched/validate.h"

namespace rubato {

namespace {

class Homes {
 public:
  Homes(Plan& plan, const PolicyInput& input)
      : plan_(plan),
        input_(input),
        free_(input.usable.begin(), input.usable.end()),
        homes_(plan.grants.size()) {}

  void find() {
    for (const std::size_t i : by_urgency()) stay(i);
    for (const std::size_t i : by_urgency()) settle(i);
    for (std::size_t i = 0; i < homes_.size(); ++i) grow(i);
    for (std::size_t i = 0; i < homes_.size(); ++i) move(i);
    for (std::size_t i = 0; i < homes_.size(); ++i) write(i);
  }

 private:
  struct Home {
    NodeId node{};  // invalid: none
    int devices = 0;
  };

  const JobSpec& spec(std::size_t i) const { return input_.jobs[i]->spec; }
  // Of a job that must be on one node; the others are placed later.
  int granted(std::size_t i) const {
    return spec(i).one_node ? plan_.grants[i].devices.total() : 0;
  }
  bool exactly(std::size_t i) const {
    return spec(i).mode == ElasticMode::kRigid || plan_.grants[i].pinned;
  }
  // The fewest devices that are any use.
  int needs(std::size_t i) const { return exactly(i) ? granted(i) : spec(i).smallest(); }
  // What the job makes of so many devices; 0: nothing.
  int useful(std::size_t i, int devices) const {
    int size = std::min(devices, granted(i));
    if (size < granted(i) && spec(i).power_of_two_sizes && size > 0) {
      size = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
    }
    return size < needs(i) ? 0 : size;
  }
  bool may_use(std::size_t i, NodeId node) const {
    return plan_.grants[i].devices[input_.cluster.node(node).type] > 0;
  }
  int& free(NodeId node) { return free_[node.index()]; }

  // Pinned jobs first, then the plan's order.
  std::vector<std::size_t> by_urgency() const {
    std::vector<std::size_t> order = plan_.placement_order;
    if (order.empty()) {
      for (std::size_t i = 0; i < plan_.grants.size(); ++i) order.push_back(i);
    }
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t i) { return plan_.grants[i].pinned; });
    return order;
  }

  void put(std::size_t i, NodeId node, int devices) {
    homes_[i] = {node, devices};
    free(node) -= devices;
  }

  // Reserves what jobs keep where they are.
  void stay(std::size_t i) {
    const std::vector<NodeShare>& shares = input_.jobs[i]->allocation.shares;
    if (shares.empty() || granted(i) == 0) return;
    const NodeShare& home = *std::max_element(
        shares.begin(), shares.end(),
        [](const NodeShare& a, const NodeShare& b) { return a.devices < b.devices; });
    if (!may_use(i, home.node)) return;
    const int most = exactly(i) ? granted(i) : std::min(granted(i), home.devices);
    const int kept = useful(i, std::min(most, free(home.node)));
    if (kept > 0) put(i, home.node, kept);
  }

  void settle(std::size_t i) {
    if (homes_[i].devices > 0 || granted(i) == 0) return;
    NodeId best;
    int most = 0;
    for (const Node& node : input_.cluster.nodes()) {
      if (!may_use(i, node.id)) continue;
      const int devices = useful(i, free(node.id));
      const bool tighter = devices == most && best.valid() && free(node.id) < free(best);
      if (devices > most || (devices > 0 && tighter)) {
        best = node.id;
        most = devices;
      }
    }
    if (most == 0) {
      make_room(i);
    } else {
      put(i, best, most);
    }
  }

  // What the other jobs of a node can spare.
  int spare(NodeId node) const {
    int sum = 0;
    for (std::size_t j = 0; j < homes_.size(); ++j) sum += spare_of(j, node);
    return sum;
  }
  int spare_of(std::size_t j, NodeId node) const {
    const bool fixed = exactly(j) || spec(j).power_of_two_sizes;
    if (homes_[j].devices == 0 || homes_[j].node != node || fixed) return 0;
    return std::max(0, homes_[j].devices - needs(j));
  }
  void make_room(std::size_t i) {
    NodeId best;
    for (const Node& node : input_.cluster.nodes()) {
      if (!may_use(i, node.id) || free(node.id) + spare(node.id) < needs(i)) continue;
      if (!best.valid() || free(node.id) > free(best)) best = node.id;
    }
    if (!best.valid()) return;
    while (free(best) < needs(i)) {
      std::size_t richest = homes_.size();
      for (std::size_t j = 0; j < homes_.size(); ++j) {
        if (spare_of(j, best) == 0) continue;
        if (richest == homes_.size() || spare_of(j, best) >= spare_of(richest, best)) richest = j;
      }
      --homes_[richest].devices;
      ++free(best);
    }
    put(i, best, useful(i, free(best)));
  }

  void grow(std::size_t i) {
    Home& home = homes_[i];
    if (home.devices == 0 || home.devices == granted(i)) return;
    free(home.node) += home.devices;
    home.devices = std::max(home.devices, useful(i, free(home.node)));
    free(home.node) -= home.devices;
  }

  void move(std::size_t i) {
    Home& home = homes_[i];
    if (home.devices == 0 || home.devices == granted(i)) return;
    for (const Node& node : input_.cluster.nodes()) {
      if (node.id == home.node || !may_use(i, node.id)) continue;
      const int devices = useful(i, free(node.id));
      if (devices <= 2 * home.devices) continue;
      free(home.node) += home.devices;
      put(i, node.id, devices);
    }
  }

  void write(std::size_t i) {
    Grant& grant = plan_.grants[i];
    const int before = granted(i);
    if (before == 0) return;
    const Home& home = homes_[i];
    grant.devices = {};
    grant.nodes.reset();
    if (home.devices > 0) {
      grant.devices[input_.cluster.node(home.node).type] = home.devices;
      grant.nodes = {{home.node, home.devices}};
    }
    if (home.devices == before) return;
    if (spec(i).mode == ElasticMode::kAdaptive) grant.batch = 0;  // it was meant for more
    grant.pinned = grant.pinned && home.devices > 0;
    grant.cut_to_size = home.devices > 0;
  }

  Plan& plan_;
  const PolicyInput& input_;
  std::vector<int> free_;
  std::vector<Home> homes_;
};

}  // namespace

void keep_to_one_node(Plan& plan, const PolicyInput& input) { Homes(plan, input).find(); }

Plan OneNodePolicy::decide(const PolicyInput& input) {
  Plan plan = policy_->decide(input);
  // A faulty plan is reported as it is.
  if (input.cluster.nodes().size() > 1 && !validate(plan, input)) keep_to_one_node(plan, input);
  return plan;
}

}  // namespace rubato
