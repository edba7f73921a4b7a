// `rubato plan`: one consistent answer, bounded in time and work.
#include "control/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace rubato::control {
namespace {

constexpr double kLong = 1e6;  // seconds of patience: only what a test counts ends a plan

JobDocument small_job(int low, int high) {
  JobDocument document;
  document.run = {"/bin/true"};
  document.tenant = "default";
  document.mode = low == high ? ElasticMode::kRigid : ElasticMode::kConsistent;
  document.min_devices = low;
  document.max_devices = high;
  document.logical_workers = high;
  return document;
}

Snapshot idle_machine(const std::string& policy) {
  return {.at = 1e9, .cluster = Machine{.type = "cpu", .devices = 4}, .policy = {.name = policy}};
}

SnapshotJob& add(Snapshot& snapshot, const JobDocument& document, int granted) {
  SnapshotJob& job = snapshot.jobs.emplace_back();
  job.record.number = static_cast<JobNumber>(snapshot.jobs.size());
  job.record.document = document;
  job.record.tenant = document.tenant;
  job.record.phase = granted > 0 ? Phase::kRunning : Phase::kQueued;
  job.record.granted = granted;
  job.record.submitted_at = snapshot.at - 100 + static_cast<double>(snapshot.jobs.size());
  if (granted > 0) job.record.started_at = job.record.held_at = job.record.submitted_at;
  return job;
}

nlohmann::json planned(const Snapshot& snapshot, const JobDocument& document,
                       const PlanLimits& limits = {.seconds = kLong}) {
  const auto plan = plan_for(snapshot, document, Profile(), limits);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? *plan : nlohmann::json();
}

// The round said "cannot be placed now", the forecast "would start in 0s".
TEST(Plan, TheDecisionAndTheForecastAgree) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    constexpr std::array kPolicies{"fifo", "rubato", "tiresias", "shortest-first", "easyscale"};
    const char* policy = kPolicies[seed % kPolicies.size()];
    if (!find_policy(policy).ok()) continue;
    Snapshot snapshot = idle_machine(policy);
    int free = 4;
    const int jobs = random.between(0, 8);
    for (int i = 0; i < jobs; ++i) {
      const int low = random.between(1, 4);
      const int high = random.between(low, 4);
      const int granted = free >= low && random.chance(0.6) ? std::min(free, high) : 0;
      free -= granted;
      SnapshotJob& job = add(snapshot, small_job(low, high), granted);
      if (random.chance(0.5)) {
        job.profile = Profile(high);
        job.profile.note({.devices = low, .batch = 64, .step_s = 0.1});
        job.record.progress = {{"step", 10}, {"total_steps", random.between(20, 2000)}};
      }
    }
    const int low = random.between(1, 4);
    const nlohmann::json plan = planned(
        snapshot, small_job(low, random.between(low, 4)),
        {.seconds = kLong, .should_stop = [left = 20'000]() mutable { return --left < 0; }});
    if (plan["placed"].get<bool>()) {
      EXPECT_EQ(plan["start_in_s"], 0.0) << plan;
      EXPECT_GE(plan["devices"].get<int>(), low) << plan;
      EXPECT_EQ(plan["reason"], "started") << plan;
    } else {
      EXPECT_EQ(plan["devices"], 0) << plan;
      const nlohmann::json start = plan["start_in_s"];
      EXPECT_TRUE(start.is_null() || start.get<double>() >= 1) << plan;
      EXPECT_NE(plan["text"].get<std::string>().find("waits for"), std::string::npos) << plan;
    }
    if (plan["eta_s"].is_number() && plan["start_in_s"].is_number()) {
      EXPECT_GE(plan["eta_s"].get<double>(), plan["start_in_s"].get<double>()) << plan;
    }
  }
}

TEST(Plan, AJobBehindAnotherStartsWhenThatOneEnds) {
  Snapshot snapshot = idle_machine("fifo");
  SnapshotJob& job = add(snapshot, small_job(4, 4), 4);
  job.profile = Profile(4);
  job.profile.note({.devices = 4, .batch = 64, .step_s = 0.1});
  job.record.progress = {{"step", 400}, {"total_steps", 1000}, {"workers", 4}};
  const nlohmann::json plan = planned(snapshot, small_job(2, 2));
  EXPECT_EQ(plan["placed"], false);
  EXPECT_NEAR(plan["start_in_s"].get<double>(), 60, 1) << plan;  // 600 steps
  EXPECT_TRUE(plan["horizon_s"].is_null()) << plan;
  EXPECT_EQ(plan["text"], "waits for 2 devices: 0 of 4 free; other jobs hold 4");
}

TEST(Plan, QuotasCountInTheForecastToo) {
  Snapshot snapshot = idle_machine("fifo");
  snapshot.policy.tenants["default"] = {.name = "default", .weight = 1, .quota = 2};
  add(snapshot, small_job(2, 2), 2);
  const nlohmann::json plan = planned(snapshot, small_job(1, 1));
  EXPECT_EQ(plan["reason"], "tenant-quota") << plan;
  ASSERT_TRUE(plan["start_in_s"].is_number()) << plan;
  EXPECT_GE(plan["start_in_s"].get<double>(), 299) << plan;  // an unknown length counts as 300 s
}

TEST(Plan, SaysHowFarItLookedWhenItWasStopped) {
  Snapshot snapshot = idle_machine("rubato");
  for (int i = 0; i < 200; ++i) add(snapshot, small_job(1, 1), i < 4 ? 1 : 0);
  int asked = 0;
  const nlohmann::json plan = planned(
      snapshot, small_job(1, 1), {.seconds = kLong, .should_stop = [&] { return ++asked > 40; }});
  EXPECT_EQ(asked, 41);  // it stops when it is told to
  ASSERT_TRUE(plan["horizon_s"].is_number()) << plan;
  EXPECT_GT(plan["horizon_s"].get<double>(), 0);
  EXPECT_TRUE(plan["eta_s"].is_null()) << plan;
}

TEST(Plan, StopsWhenItsTimeIsUp) {
  Snapshot snapshot = idle_machine("fifo");
  for (int i = 0; i < 50; ++i) add(snapshot, small_job(1, 1), i < 4 ? 1 : 0);
  const nlohmann::json plan = planned(snapshot, small_job(1, 1), {.seconds = 0});
  EXPECT_EQ(plan["horizon_s"], 0.0) << plan;
  EXPECT_EQ(plan["placed"], false);
}

// A job that has become too large for the machine must not end the plans of all others.
TEST(Plan, JobsThatNoLongerFitTakeNoPart) {
  Snapshot snapshot = idle_machine("rubato");
  add(snapshot, small_job(8, 8), 0);
  add(snapshot, small_job(2, 2), 2);
  const nlohmann::json plan = planned(snapshot, small_job(2, 2));
  EXPECT_EQ(plan["placed"], true) << plan;
}

}  // namespace
}  // namespace rubato::control
