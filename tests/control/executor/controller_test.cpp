// The whole controller with real jobs: what is pinned is held, what is told is true, and devices do
// not decide results.
#include "control/controller.h"

#include <gtest/gtest.h>

#include "control/executor/controller_fixture.h"

namespace rubato::control {
namespace {

class ControllerTest : public ControlledTest {
 protected:
  void SetUp() override {
    ControlledTest::SetUp();
    start();
  }

  JobNumber submit(JobDocument document, const std::string& devices, int logical_workers = 0) {
    nlohmann::json json = to_json(document);
    json["devices"] = devices;
    json.erase("logical_workers");
    if (logical_workers > 0) json["logical_workers"] = logical_workers;
    const Result<JobDocument> parsed = parse_job_json(json);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    const Result<JobRecord> record = controller_->submit(kAdmin, *parsed, "");
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record->number;
  }
  bool finishes(JobNumber number) {
    hurry();
    return wait([&] { return ended(job(number).phase); }) && job(number).phase == Phase::kFinished;
  }
};

// `scale` took all devices from the job that it pinned.
TEST_F(ControllerTest, AScaledJobHoldsItsDevicesBesideOthers) {
  const JobDocument document = toy(1'000'000);
  std::vector<JobNumber> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(submit(document, "1..4"));
  ASSERT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 4; }));
  ASSERT_TRUE(controller_->scale(kAdmin, jobs[1], 3).ok());
  ASSERT_TRUE(wait([&] { return job(jobs[1]).granted == 3 && job(jobs[1]).held == 3; }));
  EXPECT_EQ(text(jobs[1]),
            "holds 3 devices: pinned by `rubato scale`; `rubato scale j2 0` removes the pin");
  EXPECT_EQ(code(jobs[1]), "pinned");
  const Status refused = controller_->scale(kAdmin, jobs[0], 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "j1 cannot be guaranteed 2 devices: of 4 devices, 0 are reserved and 3 pinned to other "
            "jobs (j2 3); at most 1 can be pinned now");
  EXPECT_EQ(job(jobs[0]).scale, 0);
  ASSERT_TRUE(controller_->scale(kAdmin, jobs[0], 1).ok());
  ASSERT_TRUE(wait([&] { return job(jobs[0]).held == 1 && job(jobs[2]).granted == 0; }));
  ASSERT_TRUE(wait([&] { return !job(jobs[2]).reason.empty(); }));
  EXPECT_EQ(job(jobs[1]).held, 3);
  // Devices that are reserved later suspend the newest pin.
  const Result<Reservation> reserved = controller_->reserve(kAdmin, 1, 3600);
  ASSERT_TRUE(reserved.ok());
  ASSERT_TRUE(wait([&] { return job(jobs[1]).granted == 2 && job(jobs[1]).held == 2; }));
  EXPECT_NE(text(jobs[1]).find("its pin to 3 devices (`rubato scale`) cannot be honoured now"),
            std::string::npos)
      << text(jobs[1]);
  ASSERT_TRUE(controller_->release(kAdmin, reserved->number).ok());
  ASSERT_TRUE(wait([&] { return job(jobs[1]).held == 3; }));
  ASSERT_TRUE(controller_->scale(kAdmin, jobs[1], 0).ok());
  EXPECT_EQ(job(jobs[1]).scale, 0);
}

// devices: 1..2, 1..4 and 1..8 trained three different models.
TEST_F(ControllerTest, DevicesDoNotDecideTheResult) {
  const JobDocument document = toy(30);
  std::vector<JobNumber> jobs;
  for (const char* devices : {"1..2", "1..4", "1..8", "2"}) {
    jobs.push_back(submit(document, devices));
  }
  jobs.push_back(submit(document, "1..4", 4));
  for (const JobNumber number : jobs) {
    ASSERT_TRUE(finishes(number)) << number << " " << job(number).message;
  }
  for (const JobNumber number : jobs) {
    EXPECT_EQ(job(number).result["logical_workers"], 4);
    EXPECT_EQ(job(number).result["state_sha256"], job(jobs.back()).result["state_sha256"]);
  }
  EXPECT_EQ(job(jobs[2]).program_workers, 4);
}

TEST_F(ControllerTest, AProgramWithFewLogicalWorkersUsesAsManyDevicesAndEnds) {
  JobDocument document = toy(1'000'000);
  document.run.insert(document.run.end(), {"--logical", "2"});
  const JobNumber number = submit(document, "3..4");
  ASSERT_TRUE(wait([&] { return job(number).granted == 2 && job(number).held == 2; }))
      << text(number);
  EXPECT_EQ(job(number).phase, Phase::kRunning);
  EXPECT_EQ(job(number).reason, "logical-workers");
  EXPECT_EQ(text(number),
            "runs on its 2 devices; it has 2 logical workers and cannot use more "
            "devices");
  ASSERT_EQ(events(number, "program").size(), 1u);
  EXPECT_EQ(events(number, "program")[0]["logical_workers"], 2);
  ASSERT_TRUE(wait([&] { return !events(number, "warning").empty(); }));
  EXPECT_TRUE(events(number, "warning")[0]["message"].get<std::string>().starts_with(
      "the job has 2 logical workers, so it runs on 2 workers instead of "));
  EXPECT_FALSE(controller_->scale(kAdmin, number, 3).ok());
  EXPECT_EQ(job(number).restarts, 0);
}

// `why` of a job that never ran said "queued" and nothing else.
TEST_F(ControllerTest, JobsThatWaitHaveAReason) {
  ASSERT_TRUE(controller_->set_tenant(kAdmin, "red", {.quota = 2}).ok());
  JobDocument document = toy(1'000'000);
  document.tenant = "red";
  const JobNumber first = submit(document, "2");
  const JobNumber second = submit(document, "1..2");
  ASSERT_TRUE(wait([&] { return job(first).granted == 2 && code(second) == "tenant-quota"; }))
      << text(second);
  EXPECT_EQ(text(second),
            "waits for 1 device: 2 of 4 free; tenant red may hold 2 devices and holds 2");
  document.tenant = "blue";
  const JobNumber third = submit(document, "2");
  const JobNumber fourth = submit(document, "3..4");
  ASSERT_TRUE(wait([&] { return job(third).granted == 2 && code(fourth) != "queued"; }));
  EXPECT_TRUE(text(fourth).starts_with("waits for 3 devices: 0 of 4 free; ")) << text(fourth);
}

}  // namespace
}  // namespace rubato::control
