#include "sched/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <ostream>

#include "base/random.h"
#include "sched/validate.h"
#include "unit/sched_helpers.h"

namespace rubato {

// For messages of failed comparisons.
inline void PrintTo(const NodeShare& share, std::ostream* out) {
  *out << share.devices << "@" << share.node.value;
}

namespace {

using Shares = std::vector<NodeShare>;

// A cluster with jobs, and a plan for them.
class World {
 public:
  explicit World(std::string_view cluster) : cluster_(*Cluster::parse(cluster)) {
    for (const Node& node : cluster_.nodes()) usable_.push_back(node.devices);
  }
  World& usable(std::vector<int> devices) {
    usable_ = std::move(devices);
    return *this;
  }
  // Adds a job that has `now` and is granted `devices`.
  Grant& job(Shares now, int devices, std::int32_t type = 0) {
    JobState& state = states_.emplace_back();
    state.spec.id = JobId(states_.size() - 1);
    state.spec.name = "job " + std::to_string(state.spec.id.value);
    state.spec.mode = ElasticMode::kAdaptive;
    state.spec.max_devices = 1000;
    state.spec.batch = {.initial = 1, .max = 1000, .min_local = 1, .max_local = 1000};
    state.allocation = {std::move(now), 0};
    pointers_.push_back(&state);
    Grant& grant = plan.grants.emplace_back();
    grant.job = state.spec.id;
    if (devices > 0) grant.devices[DeviceTypeId(type)] = devices;
    return grant;
  }
  // The changes by job. Fails if the plan is not valid.
  std::map<std::size_t, Allocation> place() {
    by_type_ = {};
    for (const Node& node : cluster_.nodes()) by_type_[node.type] += usable_[node.id.index()];
    const PolicyInput input{.cluster = cluster_,
                            .usable = usable_,
                            .usable_by_type = by_type_,
                            .jobs = pointers_,
                            .finished = {}};
    const auto error = validate(plan, input);
    if (error) {
      ADD_FAILURE() << error->message;
      return {};
    }
    std::map<std::size_t, Allocation> changes;
    for (const PlacementChange& change : rubato::place(plan, input)) {
      EXPECT_TRUE(changes.emplace(change.job, change.after).second) << "two changes of a job";
    }
    return changes;
  }
  const Cluster& cluster() const { return cluster_; }
  const std::vector<int>& usable() const { return usable_; }
  const std::deque<JobState>& states() const { return states_; }

  Plan plan;

 private:
  Cluster cluster_;
  std::vector<int> usable_;
  DeviceCounts by_type_;
  std::deque<JobState> states_;
  std::vector<const JobState*> pointers_;
};

// --- best fit ------------------------------------------------------------------------------------

TEST(BestFit, TakesTheFullestNodeThatHoldsTheJob) {
  World world("4x4");
  world.usable({4, 1, 2, 3}).job({}, 2);
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(2, 2)}));
}

TEST(BestFit, PrefersOneNodeToSeveral) {
  World world("3x4");
  world.usable({1, 2, 4}).job({}, 3);
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(2, 3)}));
}

TEST(BestFit, OtherwiseTakesTheEmptiestNodesFirst) {
  World world("3x4");
  world.usable({2, 3, 1}).job({}, 5);
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(1, 3), at(0, 2)}));
}

TEST(BestFit, TheRestGoesToTheFullestNodeThatHoldsIt) {
  World world("4x4");
  world.usable({2, 4, 3, 1}).job({}, 5);
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(1, 4), at(3, 1)}));
}

TEST(BestFit, AShrinkingJobKeepsItsLargestShares) {
  World world("3x4");
  world.job({at(0, 1), at(2, 3)}, 3);
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(2, 3)}));
  World partly("3x4");
  partly.job({at(0, 2), at(1, 4), at(2, 3)}, 6);
  EXPECT_EQ(partly.place().at(0).shares, (Shares{at(1, 4), at(2, 2)}));
}

TEST(BestFit, AGrowingJobGrowsAroundWhatItHas) {
  World world("3x4");
  world.job({at(1, 2)}, 4);  // its own node has room: not node 0, which fits equally well
  EXPECT_EQ(world.place().at(0).shares, (Shares{at(1, 4)}));
  World beyond("3x4");
  beyond.job({at(1, 2)}, 6);
  EXPECT_EQ(beyond.place().at(0).shares, (Shares{at(1, 4), at(0, 2)}));
}

TEST(BestFit, AGrowingJobMovesWhenThatSpansFewerNodes) {
  World world("3x4");
  world.job({at(0, 3)}, 3);  // stays
  world.job({at(0, 1)}, 4);  // alone on node 1 or 2 instead of 1 + 3
  const auto changes = world.place();
  EXPECT_EQ(changes.count(0), 0U);
  EXPECT_EQ(changes.at(1).shares, (Shares{at(1, 4)}));
}

TEST(BestFit, WhatAResizedJobKeepsIsReservedBeforeNewJobsArePlaced) {
  World world("2x4");
  world.job({}, 4);
  world.job({at(0, 2)}, 3);
  world.plan.placement_order = {0, 1};
  const auto changes = world.place();
  EXPECT_EQ(changes.at(0).shares, (Shares{at(1, 4)}));
  EXPECT_EQ(changes.at(1).shares, (Shares{at(0, 3)}));
}

// --- most free -----------------------------------------------------------------------------------

TEST(MostFree, AlwaysTakesTheEmptiestNodeNext) {
  World world("3x4");
  world.usable({2, 4, 3});
  world.job({}, 3);  // node 1, leaves 2 1 3
  world.job({}, 2);  // node 2, leaves 2 1 1
  world.job({}, 3);  // node 0 and then the first of the two with 1
  world.plan.placement = PlacementRule::kMostFree;
  const auto changes = world.place();
  EXPECT_EQ(changes.at(0).shares, (Shares{at(1, 3)}));
  EXPECT_EQ(changes.at(1).shares, (Shares{at(2, 2)}));
  EXPECT_EQ(changes.at(2).shares, (Shares{at(0, 2), at(1, 1)}));
}

TEST(MostFree, AResizedJobIsPlacedAfresh) {
  World world("2x4");
  world.job({at(0, 1)}, 1);
  world.job({at(0, 2)}, 3);  // 3 free on node 0 without it, 4 on node 1
  world.plan.placement = PlacementRule::kMostFree;
  const auto changes = world.place();
  EXPECT_EQ(changes.count(0), 0U);
  EXPECT_EQ(changes.at(1).shares, (Shares{at(1, 3)}));
}

// --- both ----------------------------------------------------------------------------------------

class EveryRule : public testing::TestWithParam<PlacementRule> {
 protected:
  World world(std::string_view cluster) const {
    World made(cluster);
    made.plan.placement = GetParam();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(Placement, EveryRule,
                         testing::Values(PlacementRule::kBestFit, PlacementRule::kMostFree),
                         [](const auto& test) {
                           return test.param == PlacementRule::kBestFit ? "BestFit" : "MostFree";
                         });

TEST_P(EveryRule, JobsWhoseCountsDoNotChangeStay) {
  World w = world("3x4");
  w.job({at(2, 1), at(0, 1)}, 2);
  w.job({at(0, 3)}, 3);
  w.job({at(2, 3)}, 0);  // loses its devices
  w.job({}, 4);
  const auto changes = w.place();
  EXPECT_EQ(changes.count(0), 0U);
  EXPECT_EQ(changes.count(1), 0U);
  EXPECT_TRUE(changes.at(2).empty());
  EXPECT_EQ(changes.at(3).shares, (Shares{at(1, 4)}));
}

TEST_P(EveryRule, AWaitingJobThatGetsNothingIsNoChange) {
  World w = world("1x4");
  w.job({}, 0);
  EXPECT_TRUE(w.place().empty());
}

TEST_P(EveryRule, AnotherBatchKeepsTheNodes) {
  World w = world("2x4");
  w.job({at(1, 2), at(0, 1)}, 3).batch = 64;
  const auto changes = w.place();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes.at(0).shares, (Shares{at(1, 2), at(0, 1)}));
  EXPECT_EQ(changes.at(0).batch, 64);
}

TEST_P(EveryRule, TheBatchOfANewPlacementIsTheGranted) {
  World w = world("2x4");
  w.job({}, 3).batch = 64;
  w.job({at(1, 1)}, 2).batch = 32;
  const auto changes = w.place();
  EXPECT_EQ(changes.at(0).batch, 64);
  EXPECT_EQ(changes.at(1).batch, 32);
}

TEST_P(EveryRule, FixedNodesAreObeyed) {
  World w = world("3x4");
  w.job({}, 4);
  w.job({at(0, 2)}, 3).nodes = Shares{at(2, 1), at(1, 2)};
  const auto changes = w.place();
  EXPECT_EQ(changes.at(1).shares, (Shares{at(2, 1), at(1, 2)}));
  EXPECT_EQ(changes.at(0).shares, (Shares{at(0, 4)}));  // the only node that is still free
}

TEST_P(EveryRule, FixedNodesThatAreTheCurrentOnesAreNoChange) {
  World w = world("3x4");
  w.job({at(0, 2), at(1, 1)}, 3).nodes = Shares{at(0, 2), at(1, 1)};
  EXPECT_TRUE(w.place().empty());
}

TEST_P(EveryRule, FixedNodesGoBeforeJobsThatWouldStay) {
  World w = world("2x4");
  w.job({at(0, 3)}, 3);
  w.job({}, 2).nodes = Shares{at(0, 2)};
  const auto changes = w.place();
  EXPECT_EQ(changes.at(1).shares, (Shares{at(0, 2)}));
  EXPECT_EQ(changes.at(0).shares, (Shares{at(1, 3)}));
}

TEST_P(EveryRule, AWaitingJobWithoutFixedNodesIsNoChangeWhateverItsBatch) {
  World w = world("1x4");
  Grant& grant = w.job({}, 0);
  grant.nodes = Shares{};
  grant.batch = 64;
  // An executor cannot do anything about a change from nothing to nothing.
  EXPECT_TRUE(w.place().empty());
}

TEST_P(EveryRule, ThePlacementOrderDecidesWhoChooses) {
  for (const bool reversed : {false, true}) {
    World w = world("2x4");
    w.usable({4, 2});
    w.job({}, 3);
    w.job({}, 3);
    if (reversed) w.plan.placement_order = {1, 0};
    const auto changes = w.place();
    EXPECT_EQ(changes.at(reversed ? 1 : 0).shares, (Shares{at(0, 3)}));
    EXPECT_EQ(changes.at(reversed ? 0 : 1).shares.size(), 2U);
  }
}

TEST_P(EveryRule, ATypeIsNeverReplacedByAnother) {
  World w = world("1x8:a,2x2:b");
  w.job({}, 3, 1);
  w.job({at(0, 4)}, 1, 1);  // changes its type
  const auto changes = w.place();
  EXPECT_EQ(changes.at(0).shares, (Shares{at(1, 2), at(2, 1)}));
  EXPECT_EQ(changes.at(1).shares, (Shares{at(2, 1)}));
}

TEST_P(EveryRule, NodesThatAreNotUsableAreLeftAlone) {
  World w = world("3x4");
  w.usable({0, 4, 0}).job({}, 4);
  EXPECT_EQ(w.place().at(0).shares, (Shares{at(1, 4)}));
}

// Random plans, checked by counting every device.
TEST_P(EveryRule, NeverGivesADeviceTwice) {
  constexpr std::uint64_t kSeed = 31;
  std::cout << "seed " << kSeed << '\n';
  Random random(kSeed);
  for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    World w = world(round % 2 == 0 ? "5x4" : "3x4:a,2x8:b,1x1:a");
    const Cluster& cluster = w.cluster();
    std::vector<int> usable;
    for (const Node& node : cluster.nodes()) {
      usable.push_back(random.chance(0.2) ? random.between(0, node.devices) : node.devices);
    }
    w.usable(usable);
    std::vector<int> free_now = usable;    // where jobs may be now
    std::vector<int> free_fixed = usable;  // where plans may fix jobs
    DeviceCounts left;
    for (const Node& node : cluster.nodes()) left[node.type] += usable[node.id.index()];
    const auto random_shares = [&](std::vector<int>& free, DeviceTypeId type, int most) {
      Shares shares;
      for (const Node& node : cluster.nodes()) {
        const int here = std::min(free[node.id.index()], most);
        if (node.type != type || here == 0 || random.chance(0.5)) continue;
        shares.push_back({node.id, random.between(1, here)});
        free[node.id.index()] -= shares.back().devices;
        most -= shares.back().devices;
      }
      return shares;
    };
    const int jobs = random.between(1, 8);
    bool any_fixed = false;
    for (int j = 0; j < jobs; ++j) {
      const DeviceTypeId type(
          static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(cluster.type_count()))));
      const Shares now = random.chance(0.6) ? random_shares(free_now, type, 6) : Shares{};
      const int had = Allocation{now}.devices();
      if (random.chance(0.15)) {
        Shares fixed = random_shares(free_fixed, type, left[type]);
        const int devices = Allocation{fixed}.devices();
        left[type] -= devices;
        w.job(now, devices, type.value).nodes = fixed;
        any_fixed = true;
        continue;
      }
      const int wanted = random.chance(0.4) ? had : random.between(0, 9);
      const int devices = std::min(wanted, left[type]);
      left[type] -= devices;
      Grant& grant = w.job(now, devices, type.value);
      if (devices > 0 && random.chance(0.3)) grant.batch = random.between(1, 3);
    }
    if (random.chance(0.5)) {
      for (std::size_t j = w.plan.grants.size(); j-- > 0;) w.plan.placement_order.push_back(j);
    }
    const auto changes = w.place();
    std::vector<int> used(usable.size(), 0);
    for (std::size_t j = 0; j < w.states().size(); ++j) {
      const Allocation& before = w.states()[j].allocation;
      const Grant& grant = w.plan.grants[j];
      const auto changed = changes.find(j);
      const Allocation& after = changed == changes.end() ? before : changed->second;
      if (changed != changes.end()) {
        EXPECT_NE(before, after) << "a change that changes nothing";
      }
      EXPECT_EQ(after.counts(cluster), grant.devices) << "job " << j;
      EXPECT_EQ(after.batch, grant.batch) << "job " << j;
      if (grant.nodes) {
        EXPECT_EQ(after.shares, *grant.nodes);
      }
      if (!any_fixed && grant.devices == before.counts(cluster)) {
        EXPECT_EQ(after.shares, before.shares) << "job " << j << " had to stay";
      }
      std::vector<NodeId> seen;
      for (const NodeShare& share : after.shares) {
        EXPECT_GT(share.devices, 0);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), share.node), 0) << "a node is listed twice";
        seen.push_back(share.node);
        used[share.node.index()] += share.devices;
      }
    }
    for (std::size_t node = 0; node < used.size(); ++node) {
      EXPECT_LE(used[node], usable[node]) << "node " << node;
    }
  }
}

// --- allocations ---------------------------------------------------------------------------------

TEST(FitToUsable, TakesFromTheLowestPriorityAndOfThoseFromTheNewestJob) {
  std::deque<JobState> states;
  std::vector<const JobState*> jobs;
  for (const int priority : {0, -1, 0, 5, -1000}) {
    JobState& job = states.emplace_back();
    job.spec.mode = ElasticMode::kRigid;
    job.spec.priority = priority;
    job.allocation.shares = {at(0, 1)};
    jobs.push_back(&job);
  }
  states[4].spec.pinned_devices = 1;
  const auto losers = [&](int usable) {
    std::vector<std::size_t> lost;
    for (const PlacementChange& change : fit_to_usable(jobs, std::vector<int>{usable})) {
      lost.push_back(change.job);
    }
    return lost;
  };
  EXPECT_EQ(losers(4), (std::vector<std::size_t>{1}));
  EXPECT_EQ(losers(1), (std::vector<std::size_t>{1, 2, 0, 3})) << "the pinned job comes last";
}

TEST(Allocation, CountsItsDevices) {
  const Cluster cluster = *Cluster::parse("1x4:a,1x4:b");
  EXPECT_TRUE(Allocation{}.empty());
  EXPECT_EQ(Allocation{}.devices(), 0);
  EXPECT_FALSE(Allocation{}.placement(cluster).type().valid());
  const Allocation both{{at(1, 2), at(0, 3)}, 0};
  EXPECT_EQ(both.devices(), 5);
  EXPECT_EQ(both.counts(cluster)[DeviceTypeId(0)], 3);
  EXPECT_EQ(both.counts(cluster)[DeviceTypeId(1)], 2);
  const Placement placement = both.placement(cluster);
  EXPECT_EQ(placement.type(), DeviceTypeId(1));
  EXPECT_EQ(placement.nodes(), 2);
  EXPECT_EQ(placement.devices(), 5);
}

}  // namespace
}  // namespace rubato
