// Which devices a tenant may use: its share, as a number of devices on every node.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/policy.h"

namespace rubato {

using Room = std::vector<int>;  // devices by NodeId

int devices(const Room& room);
DeviceCounts by_type(const Room& room, const Cluster& cluster);

// What divide_nodes() must know about a tenant.
struct TenantNeed {
  int share = 0;        // devices it gets
  Room holding{};       // devices that its jobs hold now
  DeviceCounts most{};  // devices of each type that its jobs could use
};

// Takes every tenant's share out of `free`, which initially holds everything usable. A tenant keeps
// what its jobs hold, starting with the nodes where it holds most, and takes the rest as
// take_room() does. Tenants that can use the fewest types choose first. A tenant gets less than its
// share if its types are used up. What no tenant took stays in `free`.
std::vector<Room> divide_nodes(const std::vector<TenantNeed>& needs, const Cluster& cluster,
                               Room& free);

// Moves up to `wanted` devices from `free` into the room. It prefers a type and node where the room
// already has devices, then the tightest one that has enough, then the one with the most free
// devices.
void take_room(Room& room, int wanted, const DeviceCounts& most, const Cluster& cluster,
               Room& free);

}  // namespace rubato
