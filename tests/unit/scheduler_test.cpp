#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "model/scaling_law.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

class RecordingExecutor final : public Executor {
 public:
  void apply(std::span<const Action> batch) override {
    EXPECT_FALSE(batch.empty());
    for (const Action& action : batch) {
      EXPECT_FALSE(action.before.empty() && action.after.empty());
      actions.push_back(action);
    }
    ++calls;
  }
  std::vector<Action> actions;
  int calls = 0;
};

// A policy that does what the test case says.
class ScriptedPolicy final : public Policy {
 public:
  using Script = std::function<Plan(const PolicyInput&)>;
  explicit ScriptedPolicy(Script& script) : script_(script) {}
  Plan decide(const PolicyInput& input) override { return script_(input); }

 private:
  Script& script_;
};

class NoWork final : public RemainingWork {
 public:
  Seconds seconds_at_request(Seconds) const override { return 0; }
  double updates(std::int64_t, Seconds) const override { return 0; }
};

class Scheduling : public testing::Test {
 protected:
  explicit Scheduling(std::string_view cluster = "3x4",
                      std::vector<Knowledge> needs = {Knowledge::kNothing})
      : cluster_(*Cluster::parse(cluster)) {
    info_.name = "scripted";
    info_.needs = std::move(needs);
    grant({});
    scheduler_ = std::make_unique<Scheduler>(
        cluster_, info_, std::make_unique<ScriptedPolicy>(script_), clock_, executor_);
  }

  static JobSpec spec(std::int32_t id, ElasticMode mode, int low, int high) {
    JobSpec made;
    made.id = JobId(id);
    made.name = "job" + std::to_string(id);
    made.mode = mode;
    made.min_devices = low;
    made.max_devices = high;
    made.requested_devices = high;
    return made;
  }
  void submit(std::int32_t id, ElasticMode mode = ElasticMode::kAdaptive, int low = 1,
              int high = 12) {
    const Status status = scheduler_->submit(spec(id, mode, low, high), {});
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  // The next rounds grant job i this many devices of the first type.
  void grant(std::vector<int> devices) {
    script_ = [devices](const PolicyInput& input) {
      Plan plan;
      for (std::size_t i = 0; i < input.jobs.size(); ++i) {
        Grant& grant = plan.grants.emplace_back();
        grant.job = input.jobs[i]->spec.id;
        grant.devices[kType] = i < devices.size() ? devices[i] : 0;
      }
      return plan;
    };
  }
  // The next rounds place job i on these nodes.
  void fix(std::vector<std::vector<NodeShare>> nodes) {
    script_ = [nodes](const PolicyInput& input) {
      Plan plan;
      for (std::size_t i = 0; i < input.jobs.size(); ++i) {
        Grant& grant = plan.grants.emplace_back();
        grant.job = input.jobs[i]->spec.id;
        grant.nodes = i < nodes.size() ? nodes[i] : std::vector<NodeShare>{};
        for (const NodeShare& share : *grant.nodes) {
          grant.devices[input.cluster.node(share.node).type] += share.devices;
        }
      }
      return plan;
    };
  }
  RoundRecord round() {
    const auto record = scheduler_->round();
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? *record : RoundRecord{};
  }
  const JobState& job(std::int32_t id) const { return *scheduler_->find(JobId(id)); }
  std::string last_reason() const { return std::string(code(executor_.actions.back().reason)); }

  Cluster cluster_;
  PolicyInfo info_;
  FakeClock clock_;
  RecordingExecutor executor_;
  ScriptedPolicy::Script script_;
  std::unique_ptr<Scheduler> scheduler_;
};

// --- jobs come and go ----------------------------------------------------------------------------

TEST_F(Scheduling, ASubmittedJobWaits) {
  clock_.now = 5;
  submit(7);
  ASSERT_EQ(scheduler_->jobs().size(), 1U);
  EXPECT_FALSE(job(7).running());
  EXPECT_EQ(job(7).reason, Reason::kWaitsForDevices);
  EXPECT_EQ(scheduler_->allocated(), 0);
  EXPECT_EQ(scheduler_->running(), 0);
  EXPECT_EQ(scheduler_->usable(), 12);
  EXPECT_EQ(scheduler_->find(JobId(8)), nullptr);
}

TEST_F(Scheduling, JobsAreListedInOrderOfArrival) {
  for (const std::int32_t id : {5, 1, 9, 3}) submit(id);
  scheduler_->remove(JobId(1));
  std::vector<std::int32_t> ids;
  for (const JobState* state : scheduler_->jobs()) ids.push_back(state->spec.id.value);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{5, 9, 3}));
}

TEST_F(Scheduling, AnActiveIdIsRefused) {
  submit(7);
  const Status twice = scheduler_->submit(spec(7, ElasticMode::kAdaptive, 1, 1), {});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message, "job 'job7' is already active");
  EXPECT_EQ(scheduler_->jobs().size(), 1U);
  scheduler_->remove(JobId(7));
  submit(7);  // free again
}

TEST_F(Scheduling, AJobThatCanNeverRunIsRefused) {
  const auto refused = [&](const JobSpec& bad) { return !scheduler_->submit(bad, {}).ok(); };
  EXPECT_TRUE(refused(spec(1, ElasticMode::kConsistent, 13, 20)));
  EXPECT_FALSE(refused(spec(2, ElasticMode::kConsistent, 12, 20)));
  EXPECT_TRUE(refused(spec(3, ElasticMode::kRigid, 1, 13)));  // rigid: its request counts
  EXPECT_TRUE(refused(spec(4, ElasticMode::kConsistent, 0, 4)));
  EXPECT_TRUE(refused(spec(5, ElasticMode::kConsistent, -2, 4)));
  EXPECT_TRUE(refused(spec(6, ElasticMode::kConsistent, 4, 2)));
  JobSpec nowhere = spec(7, ElasticMode::kConsistent, 1, 4);
  nowhere.allowed_types = 0b10;  // a type that the cluster does not have
  EXPECT_TRUE(refused(nowhere));
  EXPECT_EQ(scheduler_->jobs().size(), 1U);
}

// A policy may grant the request. A request outside the job's own range would make every plan
// invalid, and one job would stop the scheduler for all jobs.
TEST_F(Scheduling, ARequestOutsideOfTheJobsOwnRangeIsRefused) {
  std::int32_t id = 0;
  for (const ElasticMode mode : {ElasticMode::kConsistent, ElasticMode::kRigid}) {
    JobSpec large = spec(++id, mode, 1, 2);
    large.requested_devices = 4;
    EXPECT_FALSE(scheduler_->submit(large, {}).ok()) << to_string(mode);
    JobSpec small = spec(++id, mode, 2, 4);
    small.requested_devices = 1;
    EXPECT_FALSE(scheduler_->submit(small, {}).ok()) << to_string(mode);
  }
}

TEST_F(Scheduling, RemovingFreesDevices) {
  submit(1);
  submit(2);
  grant({3, 4});
  round();
  EXPECT_EQ(scheduler_->allocated(), 7);
  EXPECT_EQ(scheduler_->running(), 2);
  scheduler_->remove(JobId(1));
  EXPECT_EQ(scheduler_->allocated(), 4);
  EXPECT_EQ(scheduler_->running(), 1);
  EXPECT_EQ(scheduler_->find(JobId(1)), nullptr);
}

using SchedulingDeathTest = Scheduling;
TEST_F(SchedulingDeathTest, RemovingAJobThatIsNotThereStopsTheProgram) {
  EXPECT_DEATH(scheduler_->remove(JobId(1)), "not active");
}

TEST_F(Scheduling, ThePolicyHearsOnceOfFinishedJobs) {
  submit(1);
  grant({3});
  round();
  clock_.now = 10;
  scheduler_->remove(JobId(1));
  std::vector<FinishedJob> heard;
  script_ = [&](const PolicyInput& input) {
    heard.insert(heard.end(), input.finished.begin(), input.finished.end());
    return Plan{};
  };
  round();
  round();
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].id, JobId(1));
  EXPECT_DOUBLE_EQ(heard[0].attained_service, 30);  // 3 devices for 10 s
}

// --- bookkeeping ---------------------------------------------------------------------------------

TEST_F(Scheduling, ServiceAndTimeAreCounted) {
  submit(1);
  clock_.now = 10;
  grant({2});
  round();
  EXPECT_EQ(job(1).starts, 1);
  clock_.now = 30;
  EXPECT_DOUBLE_EQ(job(1).executed_s(30), 20);
  EXPECT_DOUBLE_EQ(job(1).attained_service(30), 40);  // 2 x 20
  grant({5});
  round();
  EXPECT_EQ(job(1).resizes, 1);
  clock_.now = 40;
  EXPECT_DOUBLE_EQ(job(1).executed_s(40), 30);
  EXPECT_DOUBLE_EQ(job(1).attained_service(40), 90);  // 40 + 5 x 10
  grant({0});
  round();
  clock_.now = 100;
  EXPECT_DOUBLE_EQ(job(1).executed_s(100), 30);  // it waits
  EXPECT_DOUBLE_EQ(job(1).attained_service(100), 90);
  grant({1});
  round();
  EXPECT_EQ(job(1).starts, 2);
  EXPECT_EQ(job(1).resizes, 1);
  EXPECT_DOUBLE_EQ(job(1).attained_service(110), 100);
  EXPECT_DOUBLE_EQ(job(1).executed_s(110), 40);
  EXPECT_DOUBLE_EQ(job(1).changed_at_s, 100);
}

TEST_F(Scheduling, ARoundThatChangesNothingExecutesNothing) {
  submit(1);
  grant({2});
  EXPECT_EQ(round().actions, 1);
  EXPECT_EQ(executor_.calls, 1);
  clock_.now = 50;
  EXPECT_EQ(round().actions, 0);
  EXPECT_EQ(executor_.calls, 1);
  EXPECT_DOUBLE_EQ(job(1).changed_at_s, 0);
  EXPECT_EQ(job(1).reason, Reason::kStarted);
}

TEST_F(Scheduling, ARoundReportsItsTimesAndTheNextWakeUp) {
  script_ = [](const PolicyInput& input) {
    Plan plan;
    plan.wake_at_s = input.now_s + 60;
    plan.solver_s = 0.25;
    return plan;
  };
  clock_.now = 40;
  const RoundRecord record = round();
  EXPECT_EQ(record.wake_at_s, 100);
  EXPECT_EQ(record.solver_s, 0.25);
  EXPECT_GE(record.algorithm_s, 0);
  EXPECT_GE(record.total_s, record.algorithm_s);
}

TEST_F(Scheduling, ThePolicySeesTheStateOfThings) {
  submit(1);
  submit(2);
  clock_.now = 12;
  scheduler_->set_reserved(kType, 2);
  bool asked = false;
  script_ = [&](const PolicyInput& input) {
    asked = true;
    EXPECT_EQ(input.now_s, 12);
    EXPECT_EQ(std::vector<int>(input.usable.begin(), input.usable.end()),
              (std::vector<int>{4, 4, 2}));
    EXPECT_EQ(input.usable_by_type[kType], 10);
    EXPECT_EQ(input.jobs.size(), 2U);
    Plan plan;
    plan.grants.resize(2);
    plan.grants[0].job = JobId(1);
    plan.grants[1].job = JobId(2);
    return plan;
  };
  round();
  EXPECT_TRUE(asked);
}

// --- reasons -------------------------------------------------------------------------------------

TEST_F(Scheduling, ActionsCarryTheirReasons) {
  submit(1);
  const auto expect = [&](std::vector<NodeShare> nodes, const char* reason) {
    const Allocation before = job(1).allocation;
    fix({std::move(nodes)});
    round();
    EXPECT_EQ(last_reason(), reason);
    EXPECT_EQ(code(job(1).reason), reason);
    EXPECT_EQ(executor_.actions.back().job, JobId(1));
    EXPECT_EQ(executor_.actions.back().before, before);
    EXPECT_EQ(executor_.actions.back().after, job(1).allocation);
  };
  expect({at(0, 2)}, "started");
  expect({at(0, 4), at(1, 1)}, "grown");
  expect({at(0, 3)}, "fewer");
  expect({at(2, 3)}, "moved");
  expect({}, "held-back");
  expect({at(1, 1)}, "started");
  EXPECT_EQ(executor_.actions.size(), 6U);
}

// A job that ran alone was told that it gave devices to other jobs.
TEST_F(Scheduling, GivesDevicesToOtherJobsOnlyWhenOthersGetThem) {
  submit(1);
  submit(2);
  grant({12, 0});
  round();
  EXPECT_EQ(job(1).reason, Reason::kStarted);
  EXPECT_EQ(job(2).reason, Reason::kWaitsForDevices);
  EXPECT_EQ(job(2).facts, (DecisionFacts{.needs = 1, .free = 0, .usable = 12}));
  grant({8, 3});  // three of the four go to the other job
  round();
  EXPECT_EQ(job(1).reason, Reason::kShrunk);
  EXPECT_EQ(job(1).facts,
            (DecisionFacts{
                .before = 12, .after = 8, .needs = 1, .free = 1, .usable = 12, .to_others = 3}));
  grant({5, 4});  // the fourth device was free before
  round();
  EXPECT_EQ(job(1).reason, Reason::kFewer);
  EXPECT_EQ(job(2).reason, Reason::kGrown);
  grant({0, 12});
  round();
  EXPECT_EQ(job(1).reason, Reason::kPreempted);
  EXPECT_EQ(job(1).facts.to_others, 5);
}

TEST_F(Scheduling, AJobWhoseLimitFellIsToldWhichLimit) {
  submit(1);
  for (const auto& [limit, reason] : {std::pair{DeviceLimit::kMeasured, Reason::kSlowerOnMore},
                                      {DeviceLimit::kLogicalWorkers, Reason::kLogicalWorkers},
                                      {DeviceLimit::kOwner, Reason::kRangeChanged}}) {
    ASSERT_TRUE(scheduler_->update(spec(1, ElasticMode::kAdaptive, 1, 12), {}));
    grant({12});
    round();
    JobSpec less = spec(1, ElasticMode::kAdaptive, 1, 4);
    less.limit = limit;
    ASSERT_TRUE(scheduler_->update(less, {}));
    grant({4});
    round();
    EXPECT_EQ(job(1).reason, reason);
  }
}

TEST_F(Scheduling, AJobThatIsCutToItsSizesIsToldSo) {
  JobSpec made = spec(1, ElasticMode::kAdaptive, 1, 12);
  made.power_of_two_sizes = true;
  ASSERT_TRUE(scheduler_->submit(made, {}));
  grant({8});
  round();
  grant({7});
  round();
  EXPECT_EQ(job(1).allocation.devices(), 4);
  EXPECT_EQ(job(1).reason, Reason::kCutToSize);
}

// It was shown a range of 3 to 8, so policies granted it 3, which was cut to 2, which is too few.
TEST_F(Scheduling, PoliciesSeeThePowersOfTwoOfARange) {
  JobSpec made = spec(1, ElasticMode::kConsistent, 3, 11);
  made.requested_devices = 7;
  made.power_of_two_sizes = true;
  ASSERT_TRUE(scheduler_->submit(made, {}));
  EXPECT_EQ(job(1).spec.min_devices, 4);
  EXPECT_EQ(job(1).spec.max_devices, 8);
  EXPECT_EQ(job(1).spec.requested_devices, 4);
  round();
  EXPECT_EQ(job(1).facts.needs, 4);
  ASSERT_TRUE(scheduler_->update(made, {}));
  EXPECT_EQ(job(1).spec.min_devices, 4);
  made.id = JobId(2);
  made.min_devices = 5;
  made.max_devices = 7;
  const Status none = scheduler_->submit(made, {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("no such number is in its range 5 to 7"), std::string::npos)
      << none.error().message;
}

TEST_F(Scheduling, AJobThatLosesDevicesKeepsToItsSizes) {
  JobSpec made = spec(1, ElasticMode::kConsistent, 1, 12);
  made.power_of_two_sizes = true;
  ASSERT_TRUE(scheduler_->submit(made, {}));
  fix({{at(0, 4), at(1, 3), at(2, 1)}});
  round();
  scheduler_->set_node_down(NodeId(2), true);
  EXPECT_EQ(job(1).allocation.devices(), 4);
  EXPECT_EQ(scheduler_->allocated(), 4);
}

// The next policy counted them twice.
TEST_F(Scheduling, JobsThatEndedAreToldOnceAlsoWhenThePlanIsInvalid) {
  submit(1);
  submit(2);
  round();
  scheduler_->remove(JobId(1));
  std::vector<std::size_t> told;
  script_ = [&](const PolicyInput& input) {
    told.push_back(input.finished.size());
    return Plan{};  // no grant for job 2
  };
  EXPECT_FALSE(scheduler_->round().ok());
  EXPECT_FALSE(scheduler_->round().ok());
  EXPECT_EQ(told, (std::vector<std::size_t>{1, 0}));
}

TEST_F(Scheduling, AnotherBatchIsAnActionButNoResize) {
  JobSpec made = spec(1, ElasticMode::kAdaptive, 1, 12);
  made.batch = {.initial = 32, .max = 256, .min_local = 1, .max_local = 64};
  ASSERT_TRUE(scheduler_->submit(made, {}));
  for (const std::int64_t batch : {32, 64}) {
    script_ = [batch](const PolicyInput&) {
      Plan plan;
      plan.grants.resize(1);
      plan.grants[0].job = JobId(1);
      plan.grants[0].devices[kType] = 2;
      plan.grants[0].batch = batch;
      return plan;
    };
    clock_.now = static_cast<double>(batch);
    round();
  }
  EXPECT_DOUBLE_EQ(job(1).resized_at_s, 32);
  EXPECT_DOUBLE_EQ(job(1).changed_at_s, 64);
  ASSERT_EQ(executor_.actions.size(), 2U);
  EXPECT_EQ(last_reason(), "kept");
  EXPECT_EQ(executor_.actions[1].after.batch, 64);
  EXPECT_EQ(executor_.actions[1].before.shares, executor_.actions[1].after.shares);
  EXPECT_EQ(job(1).resizes, 0);
  EXPECT_EQ(job(1).starts, 1);
}

TEST_F(Scheduling, AWaitingJobHasTheReasonThatThePolicyGaveIfTheFactsAllowIt) {
  submit(1);
  const auto reason_with = [&](Reason hint, int of_other) {
    script_ = [=](const PolicyInput& input) {
      Plan plan;
      for (const JobState* each : input.jobs) {
        Grant& grant = plan.grants.emplace_back();
        grant.job = each->spec.id;
        grant.waiting = hint;
        if (grant.job == JobId(2)) grant.devices[kType] = of_other;
      }
      return plan;
    };
    round();
    return job(1).reason;
  };
  // Nobody else is there, and all devices are free.
  EXPECT_EQ(reason_with(Reason::kWaitsBehind, 0), Reason::kHeldBack);
  EXPECT_EQ(reason_with(Reason::kWaitsForDevices, 0), Reason::kHeldBack);
  EXPECT_TRUE(executor_.actions.empty());
  submit(2);
  EXPECT_EQ(reason_with(Reason::kWaitsBehind, 0), Reason::kWaitsBehind);
  EXPECT_EQ(reason_with(Reason::kWaitsBehind, 12), Reason::kWaitsForDevices);
  EXPECT_EQ(reason_with(Reason::kNotWorthwhile, 12), Reason::kNotWorthwhile);
  EXPECT_EQ(reason_with(Reason::kTenantShare, 12), Reason::kWaitsForDevices) << "one tenant";
  scheduler_->set_reserved(kType, 12);
  EXPECT_EQ(reason_with(Reason::kNotWorthwhile, 0), Reason::kTooFewUsable);
}

TEST(Reasons, HaveCodesAndSentences) {
  for (int i = 0; i <= static_cast<int>(kLastReason); ++i) {
    EXPECT_NE(code(static_cast<Reason>(i)), "?");
    EXPECT_NE(explanation(static_cast<Reason>(i)), "?");
    EXPECT_EQ(reason_of_code(code(static_cast<Reason>(i))), static_cast<Reason>(i));
  }
  EXPECT_EQ(code(Reason::kWaitsForDevices), "waits-for-devices");
  EXPECT_FALSE(reason_of_code("queued"));
}

// --- invalid plans -------------------------------------------------------------------------------

TEST_F(Scheduling, AnInvalidPlanIsReportedAndNotExecuted) {
  submit(1);
  submit(2);
  grant({4, 4});
  round();
  executor_ = {};
  clock_.now = 42;
  grant({6, 7});  // 13 of 12
  const auto record = scheduler_->round();
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().code, ErrorCode::kInvalidPlan);
  EXPECT_EQ(record.error().message,
            "policy scripted returned an invalid plan at 42 s: too-many-devices: 13 devices of "
            "type 0 granted, 12 usable");
  EXPECT_EQ(executor_.calls, 0);
  EXPECT_EQ(scheduler_->allocated(), 8);
  EXPECT_EQ(scheduler_->running(), 2);
  EXPECT_EQ(job(1).allocation.devices(), 4);
  EXPECT_DOUBLE_EQ(job(1).changed_at_s, 0);
  grant({6, 6});  // and it goes on
  round();
  EXPECT_EQ(scheduler_->allocated(), 12);
}

TEST_F(Scheduling, APlanForTooFewJobsIsReported) {
  submit(1);
  script_ = [](const PolicyInput&) { return Plan{}; };
  const auto record = scheduler_->round();
  ASSERT_FALSE(record.ok());
  EXPECT_NE(record.error().message.find("wrong-job-count"), std::string::npos);
}

TEST_F(Scheduling, AWaitingJobWithABatchHasNotStarted) {
  // A valid plan that gives a waiting job no nodes but names its batch.
  JobSpec made = spec(1, ElasticMode::kAdaptive, 1, 12);
  made.batch = {.initial = 32, .max = 256, .min_local = 1, .max_local = 64};
  ASSERT_TRUE(scheduler_->submit(made, {}));
  script_ = [](const PolicyInput&) {
    Plan plan;
    plan.grants.resize(1);
    plan.grants[0].job = JobId(1);
    plan.grants[0].nodes.emplace();
    plan.grants[0].batch = 64;
    return plan;
  };
  EXPECT_EQ(round().actions, 0);
  EXPECT_EQ(job(1).starts, 0);
  EXPECT_TRUE(executor_.actions.empty());
}

// --- nodes go down, serving takes devices --------------------------------------------------------

TEST_F(Scheduling, ALostNodeTakesEverythingFromARigidJob) {
  submit(1, ElasticMode::kRigid, 5, 5);
  fix({{at(0, 4), at(1, 1)}});
  round();
  clock_.now = 10;
  scheduler_->set_node_down(NodeId(1), true);
  EXPECT_FALSE(job(1).running());
  EXPECT_EQ(last_reason(), "node-down");
  EXPECT_TRUE(executor_.actions.back().after.empty());
  EXPECT_EQ(scheduler_->usable(), 8);
  EXPECT_EQ(scheduler_->allocated(), 0);
  EXPECT_EQ(scheduler_->running(), 0);
  EXPECT_DOUBLE_EQ(job(1).attained_service(10), 50);
}

TEST_F(Scheduling, ALostNodeShrinksAnElasticJob) {
  submit(1, ElasticMode::kConsistent, 2, 12);
  fix({{at(0, 4), at(1, 1)}});
  round();
  scheduler_->set_node_down(NodeId(1), true);
  EXPECT_EQ(job(1).allocation.shares, (std::vector{at(0, 4)}));
  EXPECT_EQ(job(1).reason, Reason::kNodeDown);
  EXPECT_EQ(job(1).resizes, 1);
  EXPECT_EQ(scheduler_->allocated(), 4);
  EXPECT_EQ(scheduler_->running(), 1);
  scheduler_->set_node_down(NodeId(0), true);  // nothing is left
  EXPECT_FALSE(job(1).running());
  EXPECT_EQ(scheduler_->allocated(), 0);
}

TEST_F(Scheduling, AnElasticJobBelowItsMinimumLosesAll) {
  submit(1, ElasticMode::kConsistent, 3, 12);
  fix({{at(0, 2), at(1, 2)}});
  round();
  scheduler_->set_node_down(NodeId(1), true);
  EXPECT_FALSE(job(1).running());
}

TEST_F(Scheduling, JobsElsewhereAreNotTouched) {
  submit(1);
  submit(2);
  fix({{at(0, 4)}, {at(1, 4)}});
  round();
  scheduler_->set_node_down(NodeId(2), true);
  EXPECT_EQ(executor_.calls, 1);  // the start only
  scheduler_->set_node_down(NodeId(1), true);
  EXPECT_EQ(job(1).allocation.devices(), 4);
  EXPECT_FALSE(job(2).running());
}

TEST_F(Scheduling, ANodeThatComesBackIsUsableAgain) {
  scheduler_->set_node_down(NodeId(1), true);
  scheduler_->set_node_down(NodeId(1), true);  // a second time has no effect
  EXPECT_EQ(scheduler_->usable(), 8);
  scheduler_->set_node_down(NodeId(1), false);
  EXPECT_EQ(scheduler_->usable(), 12);
  EXPECT_EQ(executor_.calls, 0);
}

TEST_F(Scheduling, ServingTakesTheLastDevices) {
  submit(1);
  submit(2);
  fix({{at(0, 4), at(1, 2)}, {at(1, 2), at(2, 4)}});
  round();
  scheduler_->set_reserved(kType, 5);  // all of node 2 and one of node 1
  EXPECT_EQ(scheduler_->usable(), 7);
  EXPECT_EQ(job(1).allocation.devices(), 6);
  EXPECT_EQ(job(2).allocation.shares, (std::vector{at(1, 1)}));  // the newest job gives way
  EXPECT_EQ(job(2).reason, Reason::kReclaimed);
  EXPECT_EQ(last_reason(), "reclaimed");
  scheduler_->set_reserved(kType, 0);
  EXPECT_EQ(scheduler_->usable(), 12);
  EXPECT_EQ(job(2).allocation.devices(), 1);  // until the next round
}

TEST_F(Scheduling, WhatARigidJobLosesIsLeftToTheOthers) {
  submit(1, ElasticMode::kAdaptive, 1, 12);
  submit(2, ElasticMode::kRigid, 2, 2);
  fix({{at(2, 2)}, {at(2, 2)}});
  round();
  scheduler_->set_reserved(kType, 1);
  EXPECT_FALSE(job(2).running());             // loses one device and therefore both
  EXPECT_EQ(job(1).allocation.devices(), 2);  // and nothing else is missing
  EXPECT_EQ(scheduler_->allocated(), 2);
}

TEST_F(Scheduling, ServingSkipsNodesThatAreDown) {
  scheduler_->set_node_down(NodeId(2), true);
  scheduler_->set_reserved(kType, 3);
  EXPECT_EQ(scheduler_->usable(), 5);  // 4 + 1 + 0
  scheduler_->set_reserved(kType, 100);
  EXPECT_EQ(scheduler_->usable(), 0);
}

class TwoTypes : public Scheduling {
 protected:
  TwoTypes() : Scheduling("2x4:a,2x4:b,1x4:a") {}
};

TEST_F(TwoTypes, ServingTakesOnlyItsType) {
  scheduler_->set_reserved(DeviceTypeId(0), 6);  // node 4 and two of node 1
  submit(1);
  bool asked = false;
  script_ = [&](const PolicyInput& input) {
    asked = true;
    EXPECT_EQ(std::vector<int>(input.usable.begin(), input.usable.end()),
              (std::vector<int>{4, 2, 4, 4, 0}));
    EXPECT_EQ(input.usable_by_type[DeviceTypeId(0)], 6);
    EXPECT_EQ(input.usable_by_type[DeviceTypeId(1)], 8);
    Plan plan;
    plan.grants.resize(1);
    plan.grants[0].job = JobId(1);
    return plan;
  };
  round();
  EXPECT_TRUE(asked);
}

TEST_F(TwoTypes, AJobMustFitOnOneType) {
  EXPECT_FALSE(scheduler_->submit(spec(1, ElasticMode::kConsistent, 13, 20), {}).ok());
  JobSpec on_b = spec(2, ElasticMode::kConsistent, 9, 20);
  EXPECT_TRUE(scheduler_->submit(on_b, {}).ok());  // 12 of type a
  on_b.id = JobId(3);
  on_b.allowed_types = 0b10;
  EXPECT_FALSE(scheduler_->submit(on_b, {}).ok());  // 8 of type b
}

// --- knowledge -----------------------------------------------------------------------------------

class WithAnOracle : public Scheduling {
 protected:
  WithAnOracle() : Scheduling("3x4", {Knowledge::kProfiledSpeed, Knowledge::kRemainingWork}) {}
};

TEST_F(WithAnOracle, APolicyThatDeclaredItGetsTheRemainingWork) {
  const NoWork oracle;
  const RequestedDurationSpeed speed(1, {});
  ASSERT_TRUE(scheduler_->submit(spec(1, ElasticMode::kAdaptive, 1, 4),
                                 {.profiled = &speed, .remaining = &oracle}));
  EXPECT_EQ(job(1).remaining, &oracle);
  EXPECT_EQ(job(1).profiled, &speed);
}

TEST_F(Scheduling, APolicyThatDidNotDeclareItDoesNotGetTheRemainingWork) {
  const NoWork oracle;
  const RequestedDurationSpeed speed(1, {});
  LearnedModel learned({});
  ASSERT_TRUE(scheduler_->submit(spec(1, ElasticMode::kAdaptive, 1, 4),
                                 {.profiled = &speed, .learned = &learned, .remaining = &oracle}));
  EXPECT_EQ(job(1).remaining, nullptr);
  EXPECT_EQ(job(1).learned, &learned);
}

}  // namespace
}  // namespace rubato
