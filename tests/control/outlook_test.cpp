// What is expected of jobs next, and how uncertain that is.
#include "control/outlook.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "control/outlook_thread.h"

namespace rubato::control {
namespace {

Snapshot cluster_of(int devices, const std::string& policy) {
  return {.at = 1000,
          .cluster = Machine{.type = "cpu", .devices = devices},
          .policy = {.name = policy}};
}

// A job that scales perfectly, with so many device-seconds left; 0: nobody knows.
void put(Snapshot& snapshot, int low, int high, int granted, double left) {
  SnapshotJob& job = snapshot.jobs.emplace_back();
  job.record.number = static_cast<JobNumber>(snapshot.jobs.size());
  job.record.phase = granted > 0 ? Phase::kRunning : Phase::kQueued;
  job.record.granted = granted;
  job.record.tenant = "default";
  job.record.submitted_at = static_cast<double>(job.record.number);
  job.record.document.run = {"/bin/true"};
  job.record.document.mode = low == high ? ElasticMode::kRigid : ElasticMode::kConsistent;
  job.record.document.min_devices = low;
  job.record.document.max_devices = high;
  job.record.document.logical_workers = high;
  if (left == 0) return;
  job.record.progress = {{"step", 0}, {"total_steps", left * 10}, {"batch", 64}};
  job.profile = Profile(high);
  for (int devices = 1; devices <= high; ++devices) {
    job.profile.note({.devices = devices, .batch = 64, .step_s = 0.1 / devices});
  }
}

Outlook ahead_of(const Snapshot& snapshot, const std::map<JobNumber, StepSpread>& spreads = {}) {
  const Result<Outlook> found = outlook_of(snapshot, spreads, {.seconds = 1e6});
  EXPECT_TRUE(found.ok()) << found.error().message;
  return found.ok() ? *found : Outlook{};
}

nlohmann::json outlook_shown(const JobOutlook& job, double passed_s = 0) {
  return outlook_json(job, passed_s, [](JobNumber number) {
    return number == 9 ? "" : "n" + std::to_string(number);
  });
}

TEST(Outlook, TheRangeComesFromTheSpreadOfStepTimes) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 200);
  const Outlook outlook = ahead_of(snapshot, {{1, {.low = 0.8, .high = 1.5}}});
  const JobOutlook& job = outlook.jobs.at(1);
  EXPECT_NEAR(job.end.at.value(), 100, 2);
  EXPECT_NEAR(job.end.earliest.value(), 80, 2);
  EXPECT_NEAR(job.end.latest.value(), 150, 2);
  EXPECT_TRUE(job.keeps);
  EXPECT_FALSE(job.change);
}

TEST(Outlook, ThereIsNoRangeWithoutASpread) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 200);
  const Outlook outlook = ahead_of(snapshot);
  EXPECT_NEAR(outlook.jobs.at(1).end.at.value(), 100, 2);
  EXPECT_FALSE(outlook.jobs.at(1).end.earliest);
  EXPECT_FALSE(outlook.jobs.at(1).end.latest);
}

TEST(Outlook, AJobOfUnknownLengthHasNoEnd) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 0);
  const Outlook outlook = ahead_of(snapshot, {{1, {.low = 0.9, .high = 1.1}}});
  EXPECT_FALSE(outlook.jobs.at(1).end.at);
  EXPECT_FALSE(outlook.jobs.at(1).end.earliest);
  EXPECT_EQ(outlook_shown(outlook.jobs.at(1))["text"], "when it ends is unknown");
}

TEST(Outlook, AWaitingJobStartsWhenAnotherEnds) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 200);
  put(snapshot, 2, 2, 0, 100);
  const Outlook outlook = ahead_of(snapshot, {{1, {.low = 0.5, .high = 2}}});
  const JobOutlook& job = outlook.jobs.at(2);
  ASSERT_TRUE(job.change);
  EXPECT_EQ(job.change->from, 0);
  EXPECT_EQ(job.change->to, 2);
  EXPECT_EQ(job.change->after, std::vector<JobNumber>{1});
  EXPECT_NEAR(job.change->when.at.value(), 100, 2);
  EXPECT_NEAR(job.change->when.earliest.value(), 50, 2);
  EXPECT_NEAR(job.change->when.latest.value(), 200, 2);
  EXPECT_NEAR(job.end.at.value(), 150, 5);
  EXPECT_FALSE(job.end.latest) << "its own step times have no spread";
}

TEST(Outlook, BehindAJobOfUnknownLengthTimesAreUnknown) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 0);
  put(snapshot, 2, 2, 0, 100);
  const JobOutlook job = ahead_of(snapshot, {{2, {.low = 0.9, .high = 1.1}}}).jobs.at(2);
  ASSERT_TRUE(job.change);
  EXPECT_FALSE(job.change->when.at);
  EXPECT_FALSE(job.change->when.latest);
  EXPECT_FALSE(job.end.at);
  EXPECT_FALSE(job.end.latest);
  EXPECT_NEAR(job.end.earliest.value(), 45, 5) << "if the other one ended now";
  EXPECT_EQ(outlook_shown(job)["text"].get<std::string>().find(
                "starts on 2 devices when j1 (n1) ends, at a time that depends on jobs of unknown "
                "length; ends in "),
            0U)
      << outlook_shown(job);
}

TEST(Outlook, WhatComesNextIsSaidAlsoWhereNoLengthIsKnown) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 0);
  put(snapshot, 2, 2, 0, 0);
  const JobOutlook job = ahead_of(snapshot).jobs.at(2);
  ASSERT_TRUE(job.change);
  EXPECT_EQ(job.change->after, std::vector<JobNumber>{1});
  EXPECT_FALSE(job.change->when.at);
}

// The late forecast had the start too, because the policy lets jobs take turns: "when j1 ends, in
// about 5 minutes (1 s to 1 hour)".
TEST(Outlook, AChangeForAnotherCauseIsNoBound) {
  for (const char* policy : {"rubato", "tiresias"}) {
    Snapshot snapshot = cluster_of(2, policy);
    put(snapshot, 2, 2, 2, 0);
    put(snapshot, 2, 2, 0, 0);
    const JobOutlook job = ahead_of(snapshot).jobs.at(2);
    ASSERT_TRUE(job.change) << policy;
    if (job.change->after.empty()) continue;  // it takes its turn earlier
    EXPECT_FALSE(job.change->when.latest) << policy;
    EXPECT_FALSE(job.change->when.at) << policy;
  }
}

TEST(Outlook, AJobGrowsWhenAnotherEnds) {
  Snapshot snapshot = cluster_of(4, "rubato");
  put(snapshot, 1, 4, 2, 1000);
  put(snapshot, 2, 2, 2, 100);
  const JobOutlook job = ahead_of(snapshot).jobs.at(1);
  ASSERT_TRUE(job.change);
  EXPECT_EQ(job.change->from, 2);
  EXPECT_EQ(job.change->to, 4);
  EXPECT_EQ(job.change->after, std::vector<JobNumber>{2});
  EXPECT_NEAR(job.change->when.at.value(), 50, 5);
  EXPECT_LT(job.end.at.value(), 400) << "it does not keep 2 devices for 500 s";
}

TEST(Outlook, WhatIsDueNowComesWithTheNextDecision) {
  Snapshot snapshot = cluster_of(4, "rubato");
  put(snapshot, 1, 4, 2, 1000);
  const JobOutlook job = ahead_of(snapshot).jobs.at(1);
  ASSERT_TRUE(job.change);
  EXPECT_EQ(job.change->when.at, 0.0);
  EXPECT_EQ(
      outlook_shown(job)["text"].get<std::string>().find("grows from 2 to 4 devices with the next"),
      0U)
      << outlook_shown(job);
}

TEST(Outlook, AStalledJobEndsNobodyKnowsWhen) {
  Snapshot snapshot = cluster_of(2, "fifo");
  put(snapshot, 2, 2, 2, 200);
  snapshot.jobs[0].record.stalled_since = 900;
  EXPECT_FALSE(ahead_of(snapshot, {{1, {}}}).jobs.at(1).end.at);
}

TEST(Outlook, InWordsWithTheTimeThatHasPassed) {
  JobOutlook job;
  job.end = {.at = 300, .earliest = 250, .latest = 4000};
  job.change = NextChange{.when = {.at = 130}, .from = 2, .to = 1, .after = {3}, .gains = {4, 9}};
  const nlohmann::json answer = outlook_shown(job, 10);
  EXPECT_EQ(answer["text"],
            "shrinks from 2 to 1 device for j4 (n4) and 1 other job when j3 (n3) ends, in about "
            "2 min 0 s; ends in about 4 min 50 s (4 min 0 s to 1 h 6 min)");
  EXPECT_EQ(answer["end_in_s"], 290.0);
  EXPECT_EQ(answer["change"]["in_s"], 120.0);
  EXPECT_EQ(answer["change"]["gains"], nlohmann::json({"j4"})) << "j9 is not the caller's";
  job.change->after = {9};
  EXPECT_NE(outlook_shown(job)["text"].get<std::string>().find("when 1 job ends"),
            std::string::npos);
}

TEST(StepTimes, TheSpreadIsThatOfThePresentSize) {
  StepTimes times;
  for (int i = 1; i <= 100; ++i) times.note(i, 2, 1.0);
  EXPECT_TRUE(times.spread());
  for (int i = 0; i < 7; ++i) times.note(200 + i, 4, 0.5);
  EXPECT_FALSE(times.spread()) << "too few on 4 workers";
  for (int i = 0; i < 5; ++i) times.note(206, 4, 0.5);
  EXPECT_FALSE(times.spread()) << "no new step";
  for (int i = 0; i < 4; ++i) times.note(300 + i, 4, 1.0);
  ASSERT_TRUE(times.spread());
  EXPECT_DOUBLE_EQ(times.spread()->low, 1);
  EXPECT_DOUBLE_EQ(times.spread()->high, 2);
}

TEST(OutlookThread, ManyCallersShareOneLook) {
  std::atomic<int> looks = 0;
  OutlookThread thread([&](const auto&) {
    ++looks;
    return Outlook{.at = 7};
  });
  for (int i = 0; i < 1000; ++i) {
    const auto newest = thread.newest(std::chrono::seconds(60));
    ASSERT_NE(newest, nullptr);
    EXPECT_EQ(newest->at, 7);
  }
  EXPECT_EQ(looks, 1) << "it rests between two looks";
}

TEST(OutlookThread, ALookThatFailsLeavesNothing) {
  OutlookThread thread(
      [](const auto&) -> Result<Outlook> { throw std::runtime_error("a policy's error"); });
  EXPECT_EQ(thread.newest(std::chrono::seconds(60)), nullptr);
}

TEST(OutlookThread, TheEndOfTheDaemonEndsALook) {
  OutlookThread thread([](const std::function<bool()>& should_stop) -> Result<Outlook> {
    while (!should_stop()) std::this_thread::yield();
    return Outlook{};
  });
  EXPECT_EQ(thread.newest(std::chrono::milliseconds(1)), nullptr);
}

}  // namespace
}  // namespace rubato::control
