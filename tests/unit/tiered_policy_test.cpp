// What priorities mean, under every policy.
#include "sched/tiered_policy.h"

#include <gtest/gtest.h>

#include "model/scaling_law.h"
#include "sched/scheduler.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

class Ignoring final : public Executor {
 public:
  void apply(std::span<const Action>) override {}
};

class AnHour final : public RemainingWork, public ObservedProgress {
 public:
  Seconds seconds_at_request(Seconds) const override { return 3600; }
  double updates(std::int64_t, Seconds) const override { return 3600; }
  double epochs_done(Seconds) const override { return 0; }
  double samples_done(Seconds) const override { return 0; }
};

class Tiers : public testing::Test {
 protected:
  void start(const PolicyInfo& info, std::string_view cluster = "1x4") {
    cluster_ = *Cluster::parse(cluster);
    clock_.now = 0;
    next_ = 0;
    scheduler_ = std::make_unique<Scheduler>(cluster_, info, std::move(*make_policy(info, {}, 1)),
                                             clock_, executor_);
  }
  JobId submit(int priority, int devices, ElasticMode mode = ElasticMode::kRigid) {
    JobSpec spec;
    spec.id = JobId(next_++);
    spec.name = "job" + std::to_string(spec.id.value);
    spec.priority = priority;
    spec.mode = mode;
    spec.submit_s = clock_.now;
    spec.min_devices = mode == ElasticMode::kRigid ? devices : 1;
    spec.max_devices = spec.requested_devices = devices;
    const Status added = scheduler_->submit(
        spec, {.profiled = &speed_, .remaining = &work_, .progress = &work_, .resize_cost_s = 1});
    EXPECT_TRUE(added.ok()) << added.error().message;
    return spec.id;
  }
  void round(Seconds after = 60) {
    clock_.now += after;
    const auto done = scheduler_->round();
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  int devices(JobId job) const { return scheduler_->find(job)->allocation.devices(); }

  Cluster cluster_ = *Cluster::parse("1x4");
  FakeClock clock_;
  Ignoring executor_;
  AnHour work_;
  RequestedDurationSpeed speed_{1, {}};
  std::unique_ptr<Scheduler> scheduler_;
  std::int32_t next_ = 0;
};

// 2^1000 is more than a double holds; some policies multiplied with it, others ignored priorities.
TEST_F(Tiers, UnderEveryPolicyAnUrgentJobStopsOthersAndNoDistanceIsTooLarge) {
  for (const PolicyInfo& info : policy_table()) {
    for (const auto& [low, high] :
         {std::pair{0, 1}, {-1000, 1000}, {-1, 0}, {60, 61}, {-1'000'000, 1'000'000}}) {
      SCOPED_TRACE(info.name + " " + std::to_string(low) + " " + std::to_string(high));
      start(info);
      const JobId early = submit(low, 4);
      round();
      round();
      ASSERT_EQ(devices(early), 4);
      const JobId urgent = submit(high, 4);
      const JobId late = submit(low, 4);
      round();
      EXPECT_EQ(devices(urgent), 4);
      EXPECT_EQ(devices(early), 0);
      scheduler_->remove(urgent);
      round();
      EXPECT_EQ(devices(early) + devices(late), 4);
    }
  }
}

TEST_F(Tiers, LowerPrioritiesGetWhatIsLeft) {
  for (const PolicyInfo& info : policy_table()) {
    SCOPED_TRACE(info.name);
    start(info);
    const JobId low = submit(-3, 1);
    const JobId high = submit(7, 2);
    const JobId middle = submit(2, 1);
    const JobId lowest = submit(-4, 1);
    round();
    EXPECT_EQ(devices(high), 2);
    EXPECT_EQ(devices(middle), 1);
    EXPECT_EQ(devices(low), 1);
    EXPECT_EQ(devices(lowest), 0);
  }
}

// An application that was never measured was worth a million, and so outranked priorities up to 17.
TEST_F(Tiers, ExploringAnApplicationComesAfterPriority) {
  start(**find_policy("rubato"));
  const BatchLimits limits{.initial = 8, .max = 64, .min_local = 1, .max_local = 64};
  LearnedModel measured(limits);
  measured.report({.type = kType, .nodes = 1, .devices = 4, .local = 2, .step_s = 1}, {});
  LearnedModel fresh(limits);
  const auto add = [&](int priority, const char* application, LearnedModel& learned) {
    JobSpec spec;
    spec.id = JobId(next_++);
    spec.priority = priority;
    spec.mode = ElasticMode::kRigid;
    spec.application = application;
    spec.min_devices = spec.max_devices = spec.requested_devices = 4;
    spec.batch = limits;
    spec.requested_batch = 8;
    EXPECT_TRUE(scheduler_->submit(spec, {.learned = &learned, .progress = &work_}).ok());
    return spec.id;
  };
  const JobId urgent = add(1, "measured", measured);
  const JobId unexplored = add(0, "never seen", fresh);
  round();
  EXPECT_EQ(devices(urgent), 4);
  EXPECT_EQ(devices(unexplored), 0);
}

TEST_F(Tiers, WhatABlockedQueueLeavesIdleStaysIdleForLowerPriorities) {
  start(**find_policy("fifo"));
  const JobId running = submit(1, 2);
  round();
  const JobId head = submit(1, 3);     // does not fit
  const JobId behind = submit(1, 1);   // would fit, but waits behind it
  const JobId lower = submit(0, 1);    // one device is left for it
  const JobId lowest = submit(-1, 1);  // none is left
  round();
  EXPECT_EQ(devices(running), 2);
  EXPECT_EQ(devices(head) + devices(behind), 0);
  EXPECT_EQ(devices(lower), 1);
  EXPECT_EQ(devices(lowest), 0);
}

TEST_F(Tiers, AnUrgentJobTakesIdleDevicesBeforeThoseOfOthers) {
  start(**find_policy("srtf"), "2x2");
  const JobId low = submit(0, 2);
  round();
  const JobId urgent = submit(1, 2);
  round();
  EXPECT_EQ(devices(urgent), 2);
  EXPECT_EQ(devices(low), 2);
  EXPECT_EQ(scheduler_->find(low)->starts, 1);
}

TEST_F(Tiers, AJobWhosePriorityChangesIsScheduledWithItsNewEquals) {
  start(**find_policy("fifo"));
  const JobId first = submit(0, 4);
  round();
  const JobId second = submit(0, 4);
  round();
  ASSERT_EQ(devices(first), 4);
  JobSpec spec = scheduler_->find(second)->spec;
  spec.priority = 1;
  ASSERT_TRUE(scheduler_->update(spec, {.profiled = &speed_, .progress = &work_}).ok());
  round();
  EXPECT_EQ(devices(second), 4);
  spec.priority = 0;
  ASSERT_TRUE(scheduler_->update(spec, {.profiled = &speed_, .progress = &work_}).ok());
  round();
  EXPECT_EQ(devices(second), 4) << "fifo stops nothing among equals";
}

// Counts what it is told.
class Counting final : public Policy {
 public:
  explicit Counting(std::vector<int>& told) : told_(told) {}
  Plan decide(const PolicyInput& input) override {
    told_.push_back(static_cast<int>(input.finished.size()));
    Plan plan;
    for (const JobState* job : input.jobs) plan.grants.push_back({.job = job->spec.id});
    return plan;
  }

 private:
  std::vector<int>& told_;
};

TEST(TieredPolicy, APolicyIsToldOnceOfItsJobsThatEnded) {
  std::vector<std::vector<int>> told(2);
  std::size_t made = 0;
  TieredPolicy policy([&] { return std::make_unique<Counting>(told.at(made++)); });
  const Cluster cluster = *Cluster::parse("1x2");
  const std::vector<int> usable{2};
  std::vector<JobState> jobs(3);
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].spec.id = JobId(i);
  jobs[2].spec.priority = 1;
  const auto ask = [&](std::vector<const JobState*> active, std::vector<FinishedJob> finished) {
    static_cast<void>(policy.decide({.cluster = cluster,
                                     .usable = usable,
                                     .usable_by_type = cluster.capacity(),
                                     .jobs = active,
                                     .finished = finished}));
  };
  ask({&jobs[0], &jobs[1], &jobs[2]}, {});
  ask({&jobs[2]}, {{.id = JobId(0)}, {.id = JobId(1)}});  // the lower priority is not asked
  ask({&jobs[2]}, {});
  ask({&jobs[0], &jobs[2]}, {});
  EXPECT_EQ(told[0], (std::vector<int>{0, 2, 0, 0})) << "of the higher priority";
  EXPECT_EQ(told[1], (std::vector<int>{0, 2})) << "of the lower priority";
}

}  // namespace
}  // namespace rubato
