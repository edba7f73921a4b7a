// Decisions are made beside the loop: whatever a policy does, the daemon answers, jobs start, and
// it ends when it should. With real jobs.
#include <gtest/gtest.h>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"
#include "control/gate_policy.h"

namespace rubato::control {
namespace {

class BesideTest : public ExecutorTest {
 protected:
  void begin(double decide_within_s, bool obedient = true) {
    auto made = Controller::start({.folder = root_ + "/state",
                                   .supervisor = options_.supervisor,
                                   .machine = {.devices = 4},
                                   .round_every_s = 0.1,
                                   .decide_within_s = decide_within_s,
                                   .around_policy = gate_.around(obedient)});
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
  }
  void TearDown() override {
    gate_.open();
    if (controller_ != nullptr) {
      for (const JobRecord& job : controller_->jobs(kAdmin, true, 0, 100)) {
        EXPECT_TRUE(controller_->cancel(kAdmin, job.number).ok());
      }
      EXPECT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 0; }));
    }
    controller_.reset();
    EXPECT_LE(gate_.most_at_once(), 1);
    ExecutorTest::TearDown();
  }

  JobNumber submit(int devices, int priority = 0) {
    JobDocument document = toy(1'000'000, devices);
    document.mode = ElasticMode::kRigid;
    document.min_devices = devices;
    document.priority = priority;
    const Result<JobRecord> record = controller_->submit(kAdmin, document, "");
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? record->number : 0;
  }
  JobRecord job(JobNumber number) const { return *controller_->job(kAdmin, number); }
  static bool wait(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool loop_turns() {
    const std::int64_t before = controller_->metrics().turns;
    return wait([&] { return controller_->metrics().turns >= before + 5; });
  }
  int count(const std::string& type, JobNumber number = 0) const {
    const auto events = controller_->events(kAdmin, 0, number, 100'000, 0);
    int found = 0;
    for (const Event& event : *events) found += event.type == type ? 1 : 0;
    return found;
  }

  static inline const Caller kAdmin{.tenant = "", .admin = true};
  static constexpr double kNever = 1e6;
  Gate gate_;
  std::unique_ptr<Controller> controller_;
};

// One slow solve stopped everything: commands, notices and what people see.
TEST_F(BesideTest, TheDaemonGoesOnWhileAPolicyDecides) {
  begin(kNever);
  const JobNumber running = submit(1);
  ASSERT_TRUE(wait([&] { return job(running).held == 1; }));
  gate_.close(2);
  const JobNumber waiting = submit(1);
  ASSERT_TRUE(wait([&] { return gate_.entered() == 1; }));
  ASSERT_TRUE(loop_turns());
  const JobNumber cancelled = submit(1);
  ASSERT_TRUE(controller_->cancel(kAdmin, cancelled).ok());
  ASSERT_TRUE(controller_->cancel(kAdmin, running).ok());
  ASSERT_TRUE(wait([&] { return job(running).held == 0; })) << "its devices are not given back";
  EXPECT_EQ(job(waiting).granted, 0);
  EXPECT_EQ(gate_.entered(), 1) << "decisions pile up";
  gate_.open();
  ASSERT_TRUE(wait([&] { return job(waiting).held == 1; }));
  EXPECT_EQ(job(cancelled).phase, Phase::kCancelled);
  EXPECT_EQ(count("granted", cancelled), 0);
  EXPECT_EQ(count("warning"), 0);
  EXPECT_EQ(controller_->metrics().late_decisions, 0);
}

TEST_F(BesideTest, WhatAPlanWasMadeForMayChange) {
  begin(kNever);
  const JobNumber first = submit(2);
  ASSERT_TRUE(wait([&] { return job(first).held == 2; }));
  gate_.close(2);
  const JobNumber second = submit(2);
  ASSERT_TRUE(wait([&] { return gate_.entered() == 1; }));
  // The plan starts the second job on devices that are reserved by the time it comes.
  const Result<Reservation> reserved = controller_->reserve(kAdmin, 2, 3600);
  ASSERT_TRUE(reserved.ok()) << reserved.error().message;
  const std::int64_t rounds = controller_->metrics().rounds;
  gate_.open();
  ASSERT_TRUE(wait([&] { return controller_->metrics().stale_plans >= 1; }));
  ASSERT_TRUE(wait([&] { return controller_->metrics().rounds > rounds; })) << "nobody asks again";
  EXPECT_EQ(job(second).granted, 0);
  EXPECT_EQ(job(first).granted, 2);
  ASSERT_TRUE(controller_->release(kAdmin, reserved->number).ok());
  ASSERT_TRUE(wait([&] { return job(second).held == 2; }));
}

TEST_F(BesideTest, WhileAPolicyIsLateJobsStartInOrder) {
  begin(0.05, false);
  gate_.close(1);
  const JobNumber large = submit(3);
  ASSERT_TRUE(wait([&] { return job(large).held == 3; })) << "no job starts";
  const JobNumber next = submit(2);
  const JobNumber behind = submit(1);
  const JobNumber urgent = submit(1, 5);
  ASSERT_TRUE(wait([&] { return job(urgent).held == 1; }));
  ASSERT_TRUE(loop_turns());
  EXPECT_EQ(job(next).granted, 0);
  EXPECT_EQ(job(behind).granted, 0) << "it overtook";
  EXPECT_EQ(gate_.most_at_once(), 1);
  EXPECT_EQ(count("warning"), 1) << "told once";
  EXPECT_EQ(controller_->metrics().rounds, 0);
  EXPECT_EQ(controller_->metrics().late_decisions, 1);
  gate_.open();
  ASSERT_TRUE(wait([&] { return controller_->metrics().rounds > 0; })) << "it is never asked again";
}

TEST_F(BesideTest, APolicyThatThrowsIsReportedAndAskedAgain) {
  begin(kNever);
  gate_.break_policy();
  const JobNumber waiting = submit(1);
  ASSERT_TRUE(wait([&] { return controller_->metrics().invalid_plans > 1; }));
  ASSERT_TRUE(loop_turns());
  EXPECT_EQ(job(waiting).granted, 0);
}

// A search that is told to end does so; the daemon does not wait for what nobody needs.
TEST_F(BesideTest, AStopEndsADecision) {
  begin(kNever);
  gate_.close(1);
  submit(1);
  ASSERT_TRUE(wait([&] { return gate_.entered() > 0; }));
  controller_.reset();  // hangs otherwise
}

TEST_F(BesideTest, ANewPolicyDoesNotWaitForTheOldOne) {
  begin(kNever);
  gate_.close(1);
  const JobNumber waiting = submit(1);
  ASSERT_TRUE(wait([&] { return gate_.entered() > 0; }));
  ASSERT_TRUE(controller_->use_policy(kAdmin, "fifo", {}).ok());
  ASSERT_TRUE(wait([&] { return gate_.entered() > 1; })) << "the old decision does not end";
  gate_.open();
  ASSERT_TRUE(wait([&] { return job(waiting).held == 1; }));
  EXPECT_GE(controller_->metrics().stale_plans, 1);
}

}  // namespace
}  // namespace rubato::control
