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

// Placed devices. Shares are listed in the order in which they were granted.
struct Allocation {
  std::vector<NodeShare> shares{};
  // Total batch size. 0: an adaptive job chooses its own, any other job uses the batch it
  // requested.
  std::int64_t batch = 0;

  bool empty() const { return shares.empty(); }
  int devices() const;
  DeviceCounts counts(const Cluster& cluster) const;
  // If the devices are of several types, the placement has the type of the first share. Use it for
  // node and device counts, not for speed (see update_of_workers).
  Placement placement(const Cluster& cluster) const;
  bool operator==(const Allocation&) const = default;
};

// What a policy grants one job: how many devices of which type and, optionally, on which nodes.
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
  kBestFit,   // the fullest node that holds the whole job; otherwise the fewest nodes, emptiest
              // first
  kMostFree,  // always the node with the most free devices (as in the Pollux artifact)
};

// A plan has exactly one grant per job of the input, in the same order.
struct Plan {
  std::vector<Grant> grants;
  // Order in which new placements are made, as indices into grants. Empty: the order of the grants.
  std::vector<std::size_t> placement_order;
  PlacementRule placement = PlacementRule::kBestFit;
  // The policy wants to decide again at this time even if nothing happens before.
  std::optional<Seconds> wake_at_s;
  Seconds solver_s = 0;  // time spent in a solver, if the policy uses one
  std::string note;      // anything an operator should know about this plan; usually empty
};

}  // namespace rubato
