// Pins: which are accepted, and what is said to those that are not. Explanations of jobs.
#include "control/pins.h"

#include <gtest/gtest.h>

#include "control/explain.h"

namespace rubato::control {
namespace {

using nlohmann::json;

class PinsTest : public ::testing::Test {
 protected:
  JobRecord& add(JobNumber number, const std::string& tenant = "red") {
    JobRecord& job = state_.jobs[number];
    job.number = number;
    job.tenant = tenant;
    job.document.run = {"./train"};
    job.document.max_devices = 4;
    return job;
  }
  std::string refusal(JobNumber number, int devices, const std::string& own = "") const {
    const Status checked = check_pin(state_.jobs.at(number), devices, state_, machine_, own);
    return checked.ok() ? "" : checked.error().message;
  }
  json why(JobNumber number) const { return explain(state_.jobs.at(number), state_, machine_, ""); }
  std::string text(JobNumber number) const { return why(number)["text"]; }

  State state_;
  Machine machine_{.type = "cpu", .devices = 4};
};

TEST_F(PinsTest, WithinTheRangeAreAccepted) {
  add(1);
  for (const int devices : {0, 1, 4}) EXPECT_EQ(refusal(1, devices), "");
  EXPECT_EQ(refusal(1, 5),
            "devices: j1 runs on 1 to 4 devices, not on 5; 0 leaves it to the policy");
  state_.jobs[1].document.min_devices = 4;
  EXPECT_EQ(refusal(1, 2), "devices: j1 runs on 4 devices, not on 2");
}

TEST_F(PinsTest, AboveTheLogicalWorkersAreRefused) {
  add(1).program_workers = 2;
  EXPECT_EQ(refusal(1, 3),
            "devices: j1 has 2 logical workers and can use at most 2 devices, not 3");
  EXPECT_EQ(refusal(1, 2), "");
}

TEST_F(PinsTest, OfASizeThatIsNotAllowedAreRefused) {
  add(1).document.power_of_two_sizes = true;
  EXPECT_EQ(refusal(1, 3),
            "devices: j1 runs on 1, 2, 4, 8, ... devices (sizes: power_of_two), not on 3");
}

TEST_F(PinsTest, AboveTheMachineAreRefused) {
  add(1).document.max_devices = 8;
  EXPECT_EQ(refusal(1, 6), "devices: this machine has 4 devices, not 6");
}

TEST_F(PinsTest, ThatOtherPinsAndReservationsLeaveNoRoomForAreRefusedWithTheNumbers) {
  add(1);
  add(2).scale = 2;
  add(3, "blue").scale = 1;
  EXPECT_EQ(refusal(1, 1), "");
  EXPECT_EQ(refusal(1, 2),
            "j1 cannot be guaranteed 2 devices: of 4 devices, 0 are reserved and 3 pinned to other "
            "jobs (j2 2, j3 1); at most 1 can be pinned now");
  EXPECT_EQ(refusal(1, 2, "red"),
            "j1 cannot be guaranteed 2 devices: of 4 devices, 0 are reserved and 3 pinned to other "
            "jobs (j2 2, other tenants 1); at most 1 can be pinned now");
  state_.reservations[1] = {.number = 1, .devices = 1};
  EXPECT_EQ(refusal(1, 1),
            "j1 cannot be guaranteed 1 device: of 4 devices, 1 is reserved and 3 pinned to other "
            "jobs (j2 2, j3 1); at most 0 can be pinned now");
  // A pin that was accepted may be made smaller, and a paused job's holds nothing.
  EXPECT_EQ(refusal(2, 1), "");
  state_.jobs[2].phase = Phase::kPaused;
  EXPECT_EQ(refusal(1, 2), "");
}

TEST_F(PinsTest, AboveTheQuotaAreRefused) {
  add(1);
  add(2).scale = 1;
  state_.tenants["red"] = {.name = "red", .weight = 1, .quota = 2, .token_sha256 = ""};
  EXPECT_EQ(refusal(1, 1), "");
  EXPECT_EQ(refusal(1, 2),
            "j1 cannot be guaranteed 2 devices: tenant red may hold 2, and its other pinned jobs "
            "hold 1");
}

TEST_F(PinsTest, AreWhatTheJobCanUse) {
  JobRecord& job = add(1);
  job.scale = 4;
  EXPECT_EQ(pinned_devices(job, machine_), 4);
  job.program_workers = 3;  // known since the pin was accepted
  EXPECT_EQ(pinned_devices(job, machine_), 3);
  job.document.power_of_two_sizes = true;
  EXPECT_EQ(pinned_devices(job, machine_), 2);
  // The daemon was started again with fewer devices.
  EXPECT_EQ(pinned_devices(job, Machine{.type = "cpu", .devices = 1}), 0);
}

// --- Explanations

TEST_F(PinsTest, WhySaysWhatIsPinned) {
  JobRecord& job = add(1);
  job.phase = Phase::kRunning;
  job.granted = job.held = job.scale = 3;
  job.reason = "grown";
  EXPECT_EQ(text(1),
            "holds 3 devices: pinned by `rubato scale`; `rubato scale j1 0` removes the pin");
  EXPECT_EQ(why(1)["code"], "pinned");
  job.granted = job.held = 1;
  state_.reservations[1] = {.number = 1, .devices = 3};
  EXPECT_EQ(text(1),
            "runs on 1 device (it can use 1 to 4); its pin to 3 devices (`rubato scale`) cannot be "
            "honoured now: 4 devices here, 3 reserved, 0 to other jobs");
  EXPECT_NE(why(1)["code"], "pinned");
}

// It said "it gave devices to other jobs" to a job that was alone, and "free: 4" of 4.
TEST_F(PinsTest, AMeasuredSlowdownIsToldAsOne) {
  JobRecord& job = add(1);
  job.phase = Phase::kRunning;
  job.granted = job.held = 2;
  job.max_useful = 2;
  job.reason = "slower-on-more";
  EXPECT_EQ(text(1),
            "runs on 2 devices (it can use 1 to 4); it was measured to be slower on more than 2 "
            "devices");
  EXPECT_EQ(why(1)["numbers"]["free"], 2);
}

TEST_F(PinsTest, AJobOfOneSizeRunsOnItsDevices) {
  JobRecord& job = add(1);
  job.phase = Phase::kRunning;
  job.document.max_devices = job.granted = job.held = 1;
  job.reason = "started";
  EXPECT_EQ(text(1), "runs on its 1 device; it got devices");
}

TEST_F(PinsTest, WaitingJobsAreToldTheNumbers) {
  JobRecord& first = add(1);
  first.phase = Phase::kRunning;
  first.granted = 3;
  JobRecord& job = add(2);
  EXPECT_EQ(text(2), "waits for 1 device: 1 of 4 free; nothing has been decided about it yet");
  job.document.min_devices = 2;
  job.reason = "waits-for-devices";
  job.facts = facts_json({.needs = 2, .free = 1, .usable = 4});
  EXPECT_EQ(text(2), "waits for 2 devices: 1 of 4 free; other jobs hold 3");
  EXPECT_EQ(why(2)["blockers"], (json{{{"job", "j1"}, {"name", "train"}, {"devices", 3}}}));
  state_.tenants["red"] = {.name = "red", .weight = 1, .quota = 4, .token_sha256 = ""};
  job.reason = "tenant-quota";
  EXPECT_EQ(text(2), "waits for 2 devices: 1 of 4 free; tenant red may hold 4 devices and holds 3");
  first.tenant = "blue";
  job.reason = "tenant-share";
  EXPECT_EQ(text(2),
            "waits for 2 devices: 1 of 4 free; tenant red has its share (0 devices), other tenants "
            "hold 3");
}

}  // namespace
}  // namespace rubato::control
