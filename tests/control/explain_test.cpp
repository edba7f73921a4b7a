// What `why` says about jobs in states that a test of the whole system reaches only by luck.
#include "control/explain.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

const Machine kFour{.type = "cpu", .devices = 4};

JobRecord running_job(JobNumber number, int devices) {
  JobRecord job;
  job.number = number;
  job.tenant = "default";
  job.document.run = {"/bin/true"};
  job.document.min_devices = 1;
  job.document.max_devices = 4;
  job.phase = Phase::kRunning;
  job.granted = job.held = devices;
  return job;
}

std::string text_of(const JobRecord& job, const State& state) {
  return explain(job, state, kFour, "")["text"];
}

// "it gave devices to other jobs", alone on an idle machine.
TEST(Explain, AJobThatIsAloneByNowDoesNotGiveDevicesToOthers) {
  State state;
  JobRecord& job = state.jobs[1] = running_job(1, 2);
  job.reason = "shrunk";
  job.facts = {{"before", 4}, {"after", 2}, {"to_others", 2}};
  EXPECT_EQ(text_of(job, state),
            "runs on 2 devices (it can use 1 to 4); it had 4 and gave 2 to jobs that have ended "
            "since; 2 devices that it could use are free, and the policy has not given it more "
            "since");
  job.facts = nlohmann::json::object();  // of an old log
  EXPECT_EQ(text_of(job, state).find("other jobs"), std::string::npos) << text_of(job, state);
  state.jobs[2] = running_job(2, 2);
  job.facts = {{"before", 4}, {"after", 2}, {"to_others", 2}};
  EXPECT_EQ(text_of(job, state),
            "runs on 2 devices (it can use 1 to 4); it had 4 and gave 2 to other jobs");
}

TEST(Explain, AQuotaKeepsARunningJobSmall) {
  State state;
  state.tenants["default"] = {.name = "default", .weight = 1, .quota = 2};
  JobRecord& job = state.jobs[1] = running_job(1, 2);
  job.reason = "started";
  EXPECT_EQ(text_of(job, state),
            "runs on 2 devices (it can use 1 to 4); it got devices; tenant default may hold 2 "
            "devices (its quota)");
}

TEST(Explain, DevicesAreOnTheirWay) {
  State state;
  state.supply = "2 pilots of 4 devices wait in Slurm (Priority)";
  state.supply_until = 100;
  JobRecord job = running_job(1, 2);
  const auto text = [&](double now) {
    nlohmann::json answer = {{"text", "it waits"}};
    explain_supply(answer, job, state, now);
    return answer["text"].get<std::string>();
  };
  const std::string told = "it waits; 2 pilots of 4 devices wait in Slurm (Priority)";
  EXPECT_EQ(text(99), told);
  EXPECT_EQ(text(101), "it waits");
  job.granted = 4;  // all that it can use
  EXPECT_EQ(text(99), "it waits");
  job.phase = Phase::kQueued;
  EXPECT_EQ(text(99), told);
  job.phase = Phase::kPaused;
  EXPECT_EQ(text(99), "it waits");
  state.supply = "";
  job.phase = Phase::kQueued;
  EXPECT_EQ(text(99), "it waits");
}

// What a job was told while it ran says nothing about why it waits.
TEST(Explain, AQueuedJobIsNotToldWhyItRan) {
  State state;
  JobRecord& job = state.jobs[1] = running_job(1, 0);
  job.phase = Phase::kQueued;
  for (const char* code : {"", "grown", "kept", "started", "nonsense"}) {
    job.reason = code;
    const nlohmann::json told = explain(job, state, kFour, "");
    EXPECT_EQ(told["code"], kUndecided) << code;
    EXPECT_EQ(told["text"],
              "waits for 1 device: 4 of 4 free; nothing has been decided about it yet");
  }
  job.reason = "waits-behind";
  EXPECT_EQ(explain(job, state, kFour, "")["code"], "waits-behind");
}

}  // namespace
}  // namespace rubato::control
