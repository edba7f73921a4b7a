// Which devices a tenant may use: its share as a number of devices of every node.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/policy.h"

namespace rubato {

using Room = std::vector<int>;  // devices by NodeId

int devices(const Room& room);
DeviceCounts by_type(const Room& room, const Cluster& cluster);

// What divide_nodes() must know of a tenant.
struct TenantNeed {
  int share = 0;        // devices it gets
  Room holding{};       // devices that its jobs have now
  DeviceCounts most{};  // of each type, what its jobs could use
};

// Takes every tenant's share out of `free` (which holds everything usable at first). A tenant keeps
// what its jobs have, the nodes where it has most first, and takes the rest as take_room() does.
// Tenants that can use the fewest types choose first. A tenant whose types are used up gets less
// than its share; what nobody took stays in `free`.
std::vector<Room> divide_nodes(const std::vector<TenantNeed>& needs, const Cluster& cluster,
                               Room& free);

// Takes up to `wanted` devices out of `free` into the room: of a type and from a node where the
// room has something already, else from the one that has just enough, else from the one that has
// most.
void take_room(Room& room, int wanted, const DeviceCounts& most, const Cluster& cluster,
               Room& free);

}  // namespace rubato
