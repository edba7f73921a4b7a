// The scheduler of the running system, with jobs as the daemon knows them.
#include "control/live_scheduler.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

class LiveSchedulerTest : public ::testing::Test {
 protected:
  void start(const std::string& policy = "rubato") {
    auto made = LiveScheduler::make(machine_, {.name = policy}, [] { return 1'000'000.0; });
    ASSERT_TRUE(made.ok()) << made.error().message;
    scheduler_ = std::move(*made);
  }
  static JobRecord record(JobNumber number, int granted) {
    JobRecord job;
    job.number = number;
    job.tenant = "red";
    job.document.run = {"./train"};
    job.document.max_devices = 4;
    job.granted = granted;
    job.phase = granted > 0 ? Phase::kRunning : Phase::kQueued;
    return job;
  }
  // The change of the only job that changes.
  Action decide() {
    std::vector<Action> actions;
    const Result<RoundRecord> round = scheduler_->round(actions);
    EXPECT_TRUE(round.ok()) << round.error().message;
    EXPECT_EQ(actions.size(), 1u);
    return actions.empty() ? Action{} : actions.front();
  }

  Machine machine_{.type = "cpu", .devices = 4};
  std::unique_ptr<LiveScheduler> scheduler_;
};

// A job alone on the machine was told that it gave devices to other jobs.
TEST_F(LiveSchedulerTest, AJobThatWasMeasuredToBeSlowerOnMoreDevicesIsToldSo) {
  start();
  JobRecord job = record(1, 4);
  ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
  job.max_useful = 2;
  ASSERT_TRUE(scheduler_->refresh(job).ok());
  const Action action = decide();
  EXPECT_LE(action.after.devices(), 2);
  EXPECT_EQ(action.reason, Reason::kSlowerOnMore);
}

TEST_F(LiveSchedulerTest, AJobWhoseProgramHasFewLogicalWorkersIsToldSo) {
  start();
  JobRecord job = record(1, 4);
  job.document.min_devices = 3;
  ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
  EXPECT_EQ(scheduler_->find(1)->spec().max_devices, 4) << "nobody knows it yet";
  job.program_workers = 2;
  ASSERT_TRUE(scheduler_->refresh(job).ok());
  const Action action = decide();
  EXPECT_EQ(action.after.devices(), 2);
  EXPECT_EQ(action.reason, Reason::kLogicalWorkers);
}

TEST_F(LiveSchedulerTest, APinCountsMoreThanWhatWasMeasured) {
  start();
  JobRecord job = record(1, 2);
  job.max_useful = 2;
  ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
  job.scale = 4;
  ASSERT_TRUE(scheduler_->refresh(job).ok());
  const Action action = decide();
  EXPECT_EQ(action.after.devices(), 4);
  EXPECT_EQ(action.reason, Reason::kPinned);
}

// It never started on an idle machine, and `why` said "waits for 3 devices: 8 of 8 free".
TEST_F(LiveSchedulerTest, AJobOfPowersOfTwoStartsUnderEveryPolicy) {
  machine_.devices = 8;
  for (const PolicyInfo& info : policy_table()) {
    start(info.name);
    JobRecord job = record(1, 0);
    job.document.min_devices = 3;
    job.document.max_devices = 8;
    job.document.logical_workers = 8;
    job.document.power_of_two_sizes = true;
    ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    std::vector<Action> actions;
    ASSERT_TRUE(scheduler_->round(actions).ok());
    const int devices = scheduler_->state(1)->allocation.devices();
    EXPECT_TRUE(devices == 4 || devices == 8) << info.name << ": " << devices;
    // Another one that must wait is told what it waits for.
    job.number = 2;
    ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    static_cast<void>(scheduler_->set_reserved(4));
    ASSERT_TRUE(scheduler_->round(actions).ok());
    EXPECT_EQ(scheduler_->state(2)->facts.needs, 4) << info.name;
  }
}

TEST_F(LiveSchedulerTest, EveryPolicyHonoursAPriority) {
  for (const PolicyInfo& info : policy_table()) {
    start(info.name);
    for (const JobNumber number : {1, 2}) {
      JobRecord job = record(number, 0);
      job.document.mode = ElasticMode::kRigid;
      job.document.min_devices = job.document.max_devices = 4;
      job.document.priority = number == 1 ? -1000 : 1000;
      ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    }
    std::vector<Action> actions;
    ASSERT_TRUE(scheduler_->round(actions).ok());
    EXPECT_EQ(scheduler_->state(1)->allocation.devices(), 0) << info.name;
    EXPECT_EQ(scheduler_->state(2)->allocation.devices(), 4) << info.name;
  }
}

TEST_F(LiveSchedulerTest, EveryPolicyHonoursAPin) {
  for (const PolicyInfo& info : policy_table()) {
    start(info.name);
    for (const JobNumber number : {1, 2, 3}) {
      JobRecord job = record(number, 0);
      if (number == 2) job.scale = 3;
      ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    }
    std::vector<Action> actions;
    const Result<RoundRecord> round = scheduler_->round(actions);
    ASSERT_TRUE(round.ok()) << round.error().message;
    EXPECT_EQ(scheduler_->state(2)->allocation.devices(), 3) << info.name;
    EXPECT_EQ(scheduler_->state(2)->reason, Reason::kPinned) << info.name;
    for (const JobNumber number : {1, 3}) {
      const JobState& other = *scheduler_->state(number);
      EXPECT_TRUE(other.running() || other.facts.needs == 1) << info.name;
    }
  }
}

TEST_F(LiveSchedulerTest, AJobThatWaitsForOthersTakesNoPartUntilItIsReleased) {
  start();
  JobRecord waits = record(2, 0);
  waits.waits_for[1] = When::kFinished;
  ASSERT_TRUE(scheduler_->add(waits, Profile()).ok());
  EXPECT_TRUE(scheduler_->jobs().empty());
  EXPECT_TRUE(scheduler_->waiting().contains(2));
  ASSERT_TRUE(scheduler_->refresh(waits).ok());
  EXPECT_TRUE(scheduler_->jobs().empty()) << "it goes on waiting";
  waits.waits_for.clear();
  ASSERT_TRUE(scheduler_->refresh(waits).ok());
  EXPECT_TRUE(scheduler_->waiting().empty());
  EXPECT_GE(decide().after.devices(), 1);
}

TEST_F(LiveSchedulerTest, JobsOfAnArrayTakeTurns) {
  start();
  std::vector<JobRecord> jobs;
  for (JobNumber number = 1; number <= 3; ++number) {
    JobRecord& job = jobs.emplace_back(record(number, number == 3 ? 1 : 0));
    job.array = {.first = 1, .name = "a", .index = 0, .size = 3, .at_once = 1};
  }
  const std::vector<const JobRecord*> all{&jobs[0], &jobs[1], &jobs[2]};
  scheduler_->begin_turns(all);
  for (const JobRecord& job : jobs) ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
  ASSERT_EQ(scheduler_->jobs().size(), 1u) << "who has devices has the turn";
  scheduler_->remove(3);
  EXPECT_EQ(scheduler_->take_turns(), std::vector<JobNumber>{1});
  ASSERT_TRUE(scheduler_->refresh(jobs[0]).ok());
  EXPECT_EQ(scheduler_->jobs().size(), 1u);
  scheduler_->remove(2);
  EXPECT_TRUE(scheduler_->take_turns().empty()) << "it had no turn";
}

TEST_F(LiveSchedulerTest, OnlyOpaqueJobsStartOver) {
  start();
  JobRecord opaque = record(1, 0);
  opaque.document.program = elastic::ProgramKind::kOpaque;
  opaque.document.mode = ElasticMode::kRigid;
  opaque.document.max_devices = 1;
  ASSERT_TRUE(scheduler_->add(opaque, Profile()).ok());
  ASSERT_TRUE(scheduler_->add(record(2, 0), Profile()).ok());
  EXPECT_TRUE(scheduler_->find(1)->spec().starts_over);
  EXPECT_FALSE(scheduler_->find(2)->spec().starts_over);
}

}  // namespace
}  // namespace rubato::control
