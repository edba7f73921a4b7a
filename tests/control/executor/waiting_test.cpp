// What the daemon tells about jobs that wait, with real jobs beside them: a code, numbers and what
// would help, for every queued job and at every time.
#include <gtest/gtest.h>

#include "control/executor/controller_fixture.h"

namespace rubato::control {
namespace {

class WaitingTest : public ControlledTest {
 protected:
  void SetUp() override {
    ControlledTest::SetUp();
    start();
    ASSERT_TRUE(controller_->use_policy(kAdmin, "fifo", {}).ok());
  }

  void set_quota(const std::string& tenant, int quota) {
    ASSERT_TRUE(controller_->set_tenant(kAdmin, tenant, {.quota = quota}).ok());
  }
  Result<JobRecord> submit_to(const std::string& tenant, int devices) {
    JobDocument document = toy(1'000'000, devices);
    document.mode = ElasticMode::kRigid;
    document.min_devices = devices;
    document.tenant = tenant;
    return controller_->submit(kAdmin, document, "");
  }
  JobNumber submit(const std::string& tenant, int devices) {
    const Result<JobRecord> record = submit_to(tenant, devices);
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? record->number : 0;
  }
  std::string remedy(JobNumber job) const { return why(job)["remedy"]; }
  bool runs(JobNumber job) {
    return wait([&] { return controller_->job(kAdmin, job)->held > 0; });
  }
  // Waits for the code, in `why` and in the list that `queue` shows.
  bool waits_with(JobNumber job, const std::string& code) {
    return wait([&] {
      for (const JobRecord& row : controller_->jobs(kAdmin, true, 0, 100)) {
        if (row.number == job && row.reason != code) return false;
      }
      return why(job)["code"] == code;
    });
  }
};

// `tenant-quota` and `tenant-share` were documented and never appeared.
TEST_F(WaitingTest, TheQuotaIsNamedWithItsNumbers) {
  set_quota("vision", 2);
  const JobNumber first = submit("vision", 2);
  ASSERT_TRUE(runs(first));
  const JobNumber second = submit("vision", 2);
  ASSERT_TRUE(waits_with(second, "tenant-quota")) << why(second);
  EXPECT_EQ(text(second),
            "waits for 2 devices: 2 of 4 free; tenant vision may hold 2 devices and holds 2");
  EXPECT_EQ(remedy(second),
            "tenant vision has a quota of 2 devices and holds 2; wait for its other jobs, or ask "
            "for a higher quota");
  EXPECT_EQ(why(second)["numbers"]["quota"], 2);
  EXPECT_EQ(why(second)["numbers"]["granted_to_tenant"], 2);
  // A job that could never run is refused, and so is its plan.
  const Result<JobRecord> large = submit_to("vision", 3);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message,
            "devices: the job needs at least 3 devices, but tenant vision may hold at most 2 (its "
            "quota), so it could never run; ask for 'devices: 1..2', or have an administrator "
            "raise the quota: rubato tenants set vision --quota 3");
  JobDocument document = toy(10, 3);
  document.min_devices = 3;
  const auto planned =
      controller_->plan({.tenant = "vision", .admin = false}, document, [] { return false; });
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.error().message, large.error().message);
}

TEST_F(WaitingTest, AQuotaThatIsLoweredLaterKeepsAJobFromRunningAndSaysSo) {
  set_quota("vision", 4);
  ASSERT_TRUE(runs(submit("vision", 3)));
  const JobNumber waiting = submit("vision", 2);
  ASSERT_TRUE(waits_with(waiting, "tenant-quota")) << why(waiting);
  set_quota("vision", 1);
  ASSERT_TRUE(wait([&] { return text(waiting).find("never") != std::string::npos; }))
      << text(waiting);
  EXPECT_EQ(why(waiting)["code"], "tenant-quota");
  EXPECT_NE(text(waiting).find("; it needs 2, but tenant vision may hold at most 1 (its quota): "
                               "under this quota it can never run"),
            std::string::npos)
      << text(waiting);
  EXPECT_EQ(remedy(waiting),
            "ask for 'devices: 1', or have an administrator raise the quota: rubato tenants set "
            "vision --quota 2");
}

TEST_F(WaitingTest, TheShareIsNamedWithItsNumbers) {
  set_quota("red", 0);
  set_quota("blue", 0);
  const JobNumber red = submit("red", 2);
  const JobNumber blue = submit("blue", 2);
  ASSERT_TRUE(runs(red));
  ASSERT_TRUE(runs(blue));
  const JobNumber more = submit("red", 2);
  ASSERT_TRUE(waits_with(more, "tenant-share")) << why(more);
  EXPECT_EQ(text(more),
            "waits for 2 devices: 0 of 4 free; tenant red has its share (2 devices), other tenants "
            "hold 2");
  // Who holds them: its own jobs by name, those of others as a sum.
  const Caller own{.tenant = "red", .admin = false};
  const nlohmann::json blockers = (*controller_->why(own, more))["blockers"];
  ASSERT_EQ(blockers.size(), 2u) << blockers;
  EXPECT_EQ(blockers[0]["job"], job_name_of(red));
  EXPECT_EQ(blockers[1]["tenant"], "others");
  EXPECT_EQ(blockers[1]["devices"], 2);
}

TEST_F(WaitingTest, EveryQueuedJobHasAReasonAtEveryTime) {
  ASSERT_TRUE(runs(submit("default", 4)));
  std::vector<JobNumber> jobs;
  for (int i = 0; i < 20; ++i) {
    jobs.push_back(submit("default", 1 + i % 4));
    if (i % 5 == 0) {
      ASSERT_TRUE(controller_->pause(kAdmin, jobs.back()).ok());
      ASSERT_TRUE(controller_->resume(kAdmin, jobs.back()).ok());
    }
    for (const JobRecord& job : controller_->jobs(kAdmin, true, 0, 100)) {
      ASSERT_FALSE(job.reason.empty()) << job.number;
      const nlohmann::json told = why(job.number);
      ASSERT_FALSE(told["text"].get<std::string>().empty()) << told;
      ASSERT_TRUE(job.phase != Phase::kQueued || !told["remedy"].get<std::string>().empty())
          << told;
    }
  }
  ASSERT_TRUE(waits_with(jobs.front(), "waits-for-devices")) << why(jobs.front());
  EXPECT_EQ(text(jobs.front()), "waits for 1 device: 0 of 4 free; other jobs hold 4");
}

// A restarted daemon has decided nothing yet.
TEST_F(WaitingTest, AfterARestartAReasonComesWithTheFirstDecision) {
  ASSERT_TRUE(runs(submit("default", 4)));
  const JobNumber waiting = submit("default", 2);
  ASSERT_TRUE(waits_with(waiting, "waits-for-devices"));
  controller_.reset();
  auto again = Controller::start(
      {.folder = root_ + "/state", .supervisor = options_.supervisor, .machine = {.devices = 4}});
  ASSERT_TRUE(again.ok()) << again.error().message;
  controller_ = std::move(*again);
  EXPECT_FALSE(controller_->job(kAdmin, waiting)->reason.empty());
  EXPECT_TRUE(waits_with(waiting, "waits-for-devices"));
}

// What earlier jobs of the program measured was ignored.
TEST_F(WaitingTest, APlanUsesStoredProfiles) {
  JobDocument document = toy(1'000'000, 2, 2000);
  document.mode = ElasticMode::kRigid;
  document.min_devices = 2;
  const Result<JobRecord> first = controller_->submit(kAdmin, document, "");
  ASSERT_TRUE(first.ok());
  const auto plan = [&] {
    const auto planned = controller_->plan(kAdmin, document, [] { return false; });
    EXPECT_TRUE(planned.ok()) << planned.error().message;
    return planned.ok() ? *planned : nlohmann::json();
  };
  EXPECT_EQ(plan()["guessed"], true);
  ASSERT_TRUE(
      wait([&] { return !(*controller_->profile(kAdmin, first->number))["points"].empty(); }));
  ASSERT_TRUE(controller_->cancel(kAdmin, first->number).ok());
  const nlohmann::json known = plan();
  EXPECT_EQ(known["guessed"], false) << known;
  EXPECT_EQ(known["start_in_s"], 0.0);
  EXPECT_TRUE(known["eta_s"].is_number()) << known;
}

}  // namespace
}  // namespace rubato::control
