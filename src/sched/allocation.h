// Devices granted to a job, and the plan of all grants at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cluster.h"
#include "model/speed.h"
#include "sched/reasons.h"

namespace rubato {

struct NodeShare {
  NodeId node;
  int devices = 0;
  bool operator==(const NodeShare&) const = default;
};

// Placed devices. The order of the shares is the order in which they were given.
struct Allocation {
  std::vector<NodeShare> shares{};
  // Total batch; 0 lets an adaptive job choose its own, and a job of another mode use its requested
  // one.
  std::int64_t batch = 0;

  bool empty() const { return shares.empty(); }
  int devices() const;
  DeviceCounts counts(const Cluster& cluster) const;
  // With devices of several types, the type is that of the first share: good for nodes and devices,
  // not for speed (see update_of_workers).
  Placement placement(const Cluster& cluster) const;
  bool operator==(const Allocation&) const = default;
};

// What a policy grants one job: how many devices of which type and, if it cares, on which nodes.
struct Grant {
  JobId job;
  DeviceCounts devices;
  std::int64_t batch = 0;                       // as in Allocation
  std::optional<std::vector<NodeShare>> nodes;  // fixed by the policy; otherwise the placer chooses
  // Why, if it gets nothing: a hint, which is checked against the facts (sched/decision.h).
  Reason waiting = Reason::kWaitsForDevices;
  bool pinned = false;       // exactly what its pin asks for
  bool cut_to_size = false;  // less than the policy granted (sched/sizes.h)
  // The job is turned away for good instead of waiting; only for a job that never ran, with no
  // devices granted.
  bool rejected = false;
};

// How the placer chooses nodes for grants that do not fix them.
enum class PlacementRule {
  kBestFit,   // the fullest node that still holds the whole job; else the fewest nodes, emptiest
              // first
  kMostFree,  // always the node with most free devices next (what the Pollux artifact does)
};

// A plan has exactly one grant per job of the input, in the same order.
struct Plan {
  std::vector<Grant> grants;
  // Order in which new placements are made (indices into grants); empty: the order of the grants.
  std::vector<std::size_t> placement_order;
  PlacementRule placement = PlacementRule::kBestFit;
  // Ask again at this time even if nothing happens until then.
  std::optional<Seconds> wake_at_s;
  Seconds solver_s = 0;  // time spent in a solver, where the policy uses one
  std::string note;      // what an operator should know about this plan; usually empty
};

}  // namespace rubato
