#include "sched/tenant_rooms.h"

#include <algorithm>
#include <numeric>

namespace rubato {

namespace {

int types_of(const DeviceCounts& most) {
  return static_cast<int>(
      std::count_if(most.of.begin(), most.of.end(), [](int count) { return count > 0; }));
}

// The first type of which the tenant already has devices. Otherwise the scarcest type that has
// everything it wants, because most jobs cannot mix types; otherwise the type with the most devices
// left. Invalid if nothing is left.
DeviceTypeId choose_type(const DeviceCounts& own, const DeviceCounts& left, int wanted,
                         const Cluster& cluster) {
  DeviceTypeId tightest;
  DeviceTypeId most;
  for (std::size_t i = 0; i < cluster.type_count(); ++i) {
    const DeviceTypeId type(i);
    if (left[type] == 0) continue;
    if (own[type] > 0) return type;
    if (left[type] >= wanted && (!tightest.valid() || left[type] < left[tightest])) tightest = type;
    if (!most.valid() || left[type] > left[most]) most = type;
  }
  return tightest.valid() ? tightest : most;
}

// The same for the nodes of a type that has free devices.
NodeId choose_node(DeviceTypeId type, const Room& room, int wanted, const Cluster& cluster,
                   const Room& free) {
  NodeId tightest;
  NodeId most;
  for (const Node& node : cluster.nodes()) {
    const int here = free[node.id.index()];
    if (node.type != type || here == 0) continue;
    if (room[node.id.index()] > 0) return node.id;
    if (here >= wanted && (!tightest.valid() || here < free[tightest.index()])) tightest = node.id;
    if (!most.valid() || here > free[most.index()]) most = node.id;
  }
  return tightest.valid() ? tightest : most;
}

// Keeps as many of the tenant's devices as its share allows, largest holdings first. Returns how
// many devices of the share are still missing.
int keep(const TenantNeed& need, const Cluster& cluster, Room& free, Room& room) {
  std::vector<std::size_t> order(need.holding.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return need.holding[a] > need.holding[b]; });
  int left = need.share;
  DeviceCounts most = need.most;
  for (const std::size_t node : order) {
    int& of_type = most[cluster.nodes()[node].type];
    const int kept = std::min({need.holding[node], left, free[node], of_type});
    room[node] += kept;
    free[node] -= kept;
    left -= kept;
    of_type -= kept;
  }
  return left;
}

}  // namespace

int devices(const Room& room) { return std::accumulate(room.begin(), room.end(), 0); }

DeviceCounts by_type(const Room& room, const Cluster& cluster) {
  DeviceCounts counts;
  for (const Node& node : cluster.nodes()) counts[node.type] += room[node.id.index()];
  return counts;
}

void take_room(Room& room, int wanted, const DeviceCounts& most, const Cluster& cluster,
               Room& free) {
  const DeviceCounts own = by_type(room, cluster);
  DeviceCounts left = by_type(free, cluster);  // may still be taken, by type
  for (std::size_t i = 0; i < cluster.type_count(); ++i) {
    left.of[i] = std::min(left.of[i], std::max(0, most.of[i] - own.of[i]));
  }
  while (wanted > 0) {
    const DeviceTypeId type = choose_type(own, left, wanted, cluster);
    if (!type.valid()) return;
    int here = std::min(left[type], wanted);
    wanted -= here;
    left[type] = 0;
    while (here > 0) {
      const NodeId node = choose_node(type, room, here, cluster, free);
      const int taken = std::min(free[node.index()], here);
      room[node.index()] += taken;
      free[node.index()] -= taken;
      here -= taken;
    }
  }
}

std::vector<Room> divide_nodes(const std::vector<TenantNeed>& needs, const Cluster& cluster,
                               Room& free) {
  std::vector<Room> rooms(needs.size(), Room(free.size(), 0));
  std::vector<int> missing(needs.size());
  for (std::size_t i = 0; i < needs.size(); ++i) {
    missing[i] = keep(needs[i], cluster, free, rooms[i]);
  }
  std::vector<std::size_t> order(needs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int types_a = types_of(needs[a].most);
    const int types_b = types_of(needs[b].most);
    return types_a != types_b ? types_a < types_b : missing[a] > missing[b];
  });
  for (const std::size_t i : order) {
    take_room(rooms[i], missing[i], needs[i].most, cluster, free);
  }
  return rooms;
}

}  // namespace rubato
