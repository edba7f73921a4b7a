// What the property tests share.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "property/random_world.h"
#include "sched/policy.h"
#include "sched/scheduler.h"

namespace rubato {

// Searches are kept short: the invariants do not depend on the quality of a plan.
inline Settings quick_settings(const PolicyInfo& info) {
  if (info.name == "pollux") return {{"population", "8"}, {"generations", "5"}};
  if (info.name == "mip") return {{"periods", "2"}};
  if (info.name == "ones") return {{"population", "8"}, {"generations", "5"}, {"islands", "2"}};
  return {};
}

// Checks what was actually granted, independently of the validator.
inline void check_allocations(const Scheduler& scheduler, const RandomWorld& world) {
  std::vector<int> used(world.cluster.nodes().size(), 0);
  int allocated = 0;
  for (const JobState* job : scheduler.jobs()) {
    const JobSpec& spec = job->spec;
    const int devices = job->allocation.devices();
    allocated += devices;
    std::set<NodeId> nodes;
    std::set<DeviceTypeId> types;
    for (const NodeShare& share : job->allocation.shares) {
      ASSERT_GT(share.devices, 0) << spec.name;
      ASSERT_TRUE(nodes.insert(share.node).second) << spec.name << " holds a node twice";
      types.insert(world.cluster.node(share.node).type);
      used[share.node.index()] += share.devices;
    }
    if (devices == 0) continue;
    ASSERT_TRUE(types.size() == 1 || spec.mixes_types) << spec.name << " mixes types";
    for (const DeviceTypeId type : types) {
      ASSERT_TRUE(spec.allows(type)) << spec.name << " runs on a type that it does not allow";
    }
    ASSERT_GE(devices, spec.min_devices) << spec.name;
    ASSERT_LE(devices, spec.max_devices) << spec.name;
    if (spec.mode == ElasticMode::kRigid) {
      ASSERT_EQ(devices, spec.requested_devices) << spec.name;
    }
    if (spec.power_of_two_sizes) {
      ASSERT_TRUE(std::has_single_bit(static_cast<unsigned>(devices))) << spec.name << devices;
    }
    if (spec.mode != ElasticMode::kAdaptive && job->allocation.batch != 0) {
      ASSERT_EQ(job->allocation.batch, spec.requested_batch) << spec.name;
    }
  }
  for (const Node& node : world.cluster.nodes()) {
    ASSERT_LE(used[node.id.index()], node.devices)
        << "node " << node.id.value << " is overcommitted";
  }
  ASSERT_EQ(allocated, scheduler.allocated());
  ASSERT_LE(allocated, scheduler.usable()) << "more devices allocated than usable";
}

}  // namespace rubato
