// Orders, serving at the requested size, and speeds at the requested batch.
#include "sched/order.h"

#include <gtest/gtest.h>

#include <deque>

#include "model/parametric.h"
#include "model/scaling_law.h"
#include "sched/gang.h"
#include "sched/speedup.h"

namespace rubato {
namespace {

constexpr DeviceTypeId kA{0};
constexpr DeviceTypeId kB{1};

class Jobs : public testing::Test {
 protected:
  JobState& add(int priority = 0, int requested = 1, std::vector<NodeShare> now = {}) {
    JobState& state = states_.emplace_back();
    state.spec.id = JobId(states_.size() - 1);
    state.spec.priority = priority;
    state.spec.requested_devices = state.spec.max_devices = requested;
    state.spec.requested_batch = 64;
    state.allocation.shares = std::move(now);
    pointers_.push_back(&state);
    return state;
  }
  PolicyInput input() {
    usable_by_type_ = cluster_.capacity();
    return {.cluster = cluster_,
            .usable = usable_,
            .usable_by_type = usable_by_type_,
            .jobs = pointers_,
            .finished = {}};
  }
  std::vector<int> granted(const Plan& plan, DeviceTypeId type = kA) const {
    std::vector<int> devices;
    for (const Grant& grant : plan.grants) devices.push_back(grant.devices[type]);
    return devices;
  }

  Cluster cluster_ = *Cluster::parse("2x4:a,1x2:b");
  std::vector<int> usable_{4, 4, 2};
  DeviceCounts usable_by_type_;
  std::deque<JobState> states_;
  std::vector<const JobState*> pointers_;
};

using Order = Jobs;

TEST_F(Order, UrgentJobsFirstThenByArrival) {
  for (const int priority : {0, 2, 0, 1, 2}) add(priority);
  EXPECT_EQ(by_priority_then_arrival(input()), (JobOrder{1, 4, 3, 0, 2}));
}

TEST_F(Order, WithOnePriorityItIsTheArrival) {
  for (int i = 0; i < 3; ++i) add(7);
  EXPECT_EQ(by_priority_then_arrival(input()), (JobOrder{0, 1, 2}));
  pointers_.clear();
  EXPECT_EQ(by_priority_then_arrival(input()), JobOrder{});
}

TEST_F(Order, ByKeyWithinAPriority) {
  for (const int priority : {0, 0, 1, 0, 0}) add(priority);
  const std::vector<double> keys{3, 1, 9, 3, 2};
  EXPECT_EQ(by_key(input(), [&](const JobState& job) { return keys[job.spec.id.index()]; }),
            (JobOrder{2, 1, 4, 0, 3}));  // jobs 0 and 3 have the same key: by arrival
}

TEST_F(Order, RunningJobsFirst) {
  add();
  add(0, 1, {{NodeId(0), 1}});
  add();
  add(0, 1, {{NodeId(1), 1}});
  EXPECT_EQ(running_first(input(), {2, 3, 0, 1}), (JobOrder{3, 1, 2, 0}));
}

// --- at the requested size -----------------------------------------------------------------------

using Gang = Jobs;

TEST_F(Gang, EverybodyGetsWhatTheyAskedFor) {
  add(0, 3);
  add(0, 5);
  const Plan plan = grant_requested(input(), {1, 0}, WhenFull::kStop, PlacementRule::kMostFree);
  EXPECT_EQ(granted(plan), (std::vector<int>{3, 5}));
  EXPECT_EQ(plan.grants[0].batch, 64);
  EXPECT_EQ(plan.placement_order, (JobOrder{1, 0}));
  EXPECT_EQ(plan.placement, PlacementRule::kMostFree);
}

TEST_F(Gang, TheFirstThatDoesNotFitBlocksOrIsSkipped) {
  add(0, 6);
  add(0, 4);  // 2 are left
  add(0, 2);
  const Plan strict = grant_requested(input(), {0, 1, 2}, WhenFull::kStop, PlacementRule::kBestFit);
  EXPECT_EQ(granted(strict), (std::vector<int>{6, 0, 0}));
  EXPECT_EQ(strict.grants[1].waiting, Reason::kWaitsForDevices);
  EXPECT_EQ(strict.grants[2].waiting, Reason::kWaitsBehind);
  const Plan skipping =
      grant_requested(input(), {0, 1, 2}, WhenFull::kSkip, PlacementRule::kBestFit);
  EXPECT_EQ(granted(skipping), (std::vector<int>{6, 0, 2}));
}

TEST_F(Gang, ARunningJobKeepsItsType) {
  add(0, 2, {{NodeId(2), 2}});
  const Plan plan = grant_requested(input(), {0}, WhenFull::kStop, PlacementRule::kBestFit);
  EXPECT_EQ(granted(plan, kA), std::vector<int>{0});
  EXPECT_EQ(granted(plan, kB), std::vector<int>{2});
}

TEST_F(Gang, TypesWithRoom) {
  DeviceCounts left;
  left[kA] = 1;
  left[kB] = 2;
  JobState& job = add(0, 1);
  EXPECT_EQ(type_with_room(job, 1, left, cluster_), kA);  // the first
  EXPECT_EQ(type_with_room(job, 2, left, cluster_), kB);
  EXPECT_FALSE(type_with_room(job, 3, left, cluster_).valid());
  job.spec.allowed_types = 0b10;
  EXPECT_EQ(type_with_room(job, 1, left, cluster_), kB);
  job.spec.allowed_types = 0b01;
  EXPECT_FALSE(type_with_room(job, 2, left, cluster_).valid());
}

TEST_F(Gang, AnEmptyPlanNamesEveryJob) {
  add();
  add();
  const Plan plan = empty_plan(input());
  ASSERT_EQ(plan.grants.size(), 2U);
  EXPECT_EQ(plan.grants[1].job, JobId(1));
  EXPECT_EQ(plan.grants[1].devices.total(), 0);
}

// --- speeds --------------------------------------------------------------------------------------

using RequestedSpeed = Jobs;

TEST_F(RequestedSpeed, WithoutKnowledgeItScalesPerfectly) {
  const JobState& job = add();
  RequestedBatchSpeed speed;
  EXPECT_DOUBLE_EQ(speed.update_s(job, kA, 4, cluster_), 0.25);
  EXPECT_DOUBLE_EQ(speed.speed(job, kA, 4, cluster_), 4);
  EXPECT_EQ(speed.speed(job, kA, 0, cluster_), 0);
}

TEST_F(RequestedSpeed, AProfiledJobIsAskedAtItsBatchOnPackedNodes) {
  const ParametricSpeed profiled({.alpha_c = 0.1,
                                  .beta_c = 0.01,
                                  .alpha_n = 0.5,
                                  .beta_n = 0.01,
                                  .alpha_r = 0.2,
                                  .beta_r = 0.01,
                                  .gamma = 1});
  JobState& job = add();
  job.profiled = &profiled;
  job.spec.batch = {.initial = 64, .max = 64, .min_local = 1, .max_local = 32};
  RequestedBatchSpeed speed;
  // One device: 64 in two of 32, each 0.1 + 0.32 = 0.42.
  EXPECT_NEAR(speed.update_s(job, kA, 1, cluster_), 0.84, 1e-6);
  // Four of one node: 16 each, 0.1 + 0.16 + 0.2 + 0.01 x 2 = 0.48.
  EXPECT_NEAR(speed.update_s(job, kA, 4, cluster_), 0.48, 1e-6);
  EXPECT_NEAR(speed.speed(job, kA, 4, cluster_), 1.75, 1e-5);  // 0.84 / 0.48
  // Eight are two nodes: 8 each, 0.1 + 0.08 + 0.5 + 0.01 x 6 = 0.74.
  EXPECT_NEAR(speed.update_s(job, kA, 8, cluster_), 0.74, 1e-6);
  // Type b has nodes of two: four are across nodes there. 0.26 + 0.5 + 0.02.
  EXPECT_NEAR(speed.update_s(job, kB, 4, cluster_), 0.78, 1e-6);
}

TEST_F(RequestedSpeed, AnAnswerIsRememberedUntilTheJobEnds) {
  const RequestedDurationSpeed slow(1, {.exponent = 0.5});
  JobState& job = add();
  RequestedBatchSpeed speed;
  EXPECT_DOUBLE_EQ(speed.update_s(job, kA, 4, cluster_), 0.25);
  job.profiled = &slow;
  EXPECT_DOUBLE_EQ(speed.update_s(job, kA, 4, cluster_), 0.25);
  const std::vector<FinishedJob> finished{{JobId(0), 0}};
  speed.forget(finished);
  EXPECT_DOUBLE_EQ(speed.update_s(job, kA, 4, cluster_), 0.5);  // 1 / sqrt(4)
}

TEST_F(RequestedSpeed, NoMicroBatchBelowTheSmallest) {
  JobSpec spec;
  spec.min_devices = 1;
  spec.max_devices = 100;
  spec.requested_devices = 7;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 100);  // no batches: no limit
  spec.batch = {.initial = 64, .max = 640, .min_local = 10, .max_local = 64};
  spec.requested_batch = 64;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 6);  // 64 / 10
  spec.max_devices = 4;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 4);
  spec.max_devices = 100;
  spec.min_devices = 8;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 8);  // its minimum takes precedence
  spec.min_devices = 1;
  spec.requested_batch = 5;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 1);
  spec.mode = ElasticMode::kRigid;
  EXPECT_EQ(most_devices_at_requested_batch(spec), 7);
}

}  // namespace
}  // namespace rubato
