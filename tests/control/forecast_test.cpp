// `sim --from-live` and `queue` start from the same work left and the same speed.
#include <gtest/gtest.h>

#include "control/snapshot.h"

namespace rubato::control {
namespace {

SnapshotJob half_done(JobNumber number, ElasticMode mode, int devices) {
  SnapshotJob job;
  job.record.number = number;
  job.record.phase = Phase::kRunning;
  job.record.granted = devices;
  job.record.tenant = "default";
  job.record.document.run = {"/bin/true"};
  job.record.document.mode = mode;
  job.record.document.min_devices = job.record.document.max_devices = devices;
  if (mode == ElasticMode::kAdaptive) {
    job.record.document.min_batch = job.record.document.max_batch = 64;
  } else {
    job.record.document.logical_workers = 4;
  }
  job.record.progress = {{"step", 400}, {"total_steps", 1000}, {"batch", 64}, {"workers", devices}};
  job.profile = Profile(mode == ElasticMode::kAdaptive ? 0 : 4);
  job.profile.note({.devices = devices, .batch = 64, .step_s = 0.1});
  return job;
}

class SameEstimate : public testing::TestWithParam<ElasticMode> {};

TEST_P(SameEstimate, OfAJobThatKeepsItsDevices) {
  Snapshot snapshot{
      .at = 1000, .cluster = Machine{.type = "cpu", .devices = 2}, .policy = {.name = "fifo"}};
  snapshot.jobs.push_back(half_done(1, GetParam(), 2));
  const LiveJob live(snapshot.jobs[0].record, snapshot.jobs[0].profile, snapshot.cluster);
  ASSERT_TRUE(live.seconds_left(2));
  EXPECT_DOUBLE_EQ(*live.seconds_left(2), 60);
  const Result<Forecast> next = forecast(snapshot, "fifo", {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_TRUE(next->jobs.at(0).finish_s);
  EXPECT_FALSE(next->jobs.at(0).guessed);
  EXPECT_NEAR(*next->jobs.at(0).finish_s, 60, 2);  // the simulator starts it first
}

// The forecast took the longer of what the job says and what an earlier one of its program said.
TEST_P(SameEstimate, OfAJobThatIsShorterThanTheOneBefore) {
  Snapshot snapshot{
      .at = 1000, .cluster = Machine{.type = "cpu", .devices = 2}, .policy = {.name = "fifo"}};
  snapshot.jobs.push_back(half_done(1, GetParam(), 2));
  snapshot.jobs[0].profile.note_length(5000, 100, 6400);
  const Result<Forecast> next = forecast(snapshot, "fifo", {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_TRUE(next->jobs.at(0).finish_s);
  EXPECT_NEAR(*next->jobs.at(0).finish_s, 60, 2);
}

INSTANTIATE_TEST_SUITE_P(Forecast, SameEstimate,
                         testing::Values(ElasticMode::kConsistent, ElasticMode::kAdaptive),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

TEST(Estimate, AJobThatHasNotEndedHasWorkLeft) {
  SnapshotJob job = half_done(1, ElasticMode::kConsistent, 2);
  job.record.progress["step"] = 1000;
  const LiveJob live(job.record, job.profile, Machine{.type = "cpu", .devices = 2});
  EXPECT_GT(*live.seconds_left(2), 0);
}

// A job of one device that has not started, 60 s long.
SnapshotJob queued(JobNumber number) {
  SnapshotJob job = half_done(number, ElasticMode::kConsistent, 1);
  job.record.phase = Phase::kQueued;
  job.record.granted = 0;
  return job;
}

TEST(Forecast, JobsThatWaitForOthersStartWhenTheseHaveEnded) {
  Snapshot snapshot{
      .at = 1000, .cluster = Machine{.type = "cpu", .devices = 2}, .policy = {.name = "fifo"}};
  snapshot.jobs.push_back(half_done(1, ElasticMode::kConsistent, 1));
  for (JobNumber number = 2; number <= 5; ++number) snapshot.jobs.push_back(queued(number));
  snapshot.jobs[1].record.waits_for[1] = When::kFinished;
  snapshot.jobs[2].record.waits_for = {{1, When::kEnded}, {2, When::kEnded}};
  snapshot.jobs[3].record.waits_for[1] = When::kFailed;  // not expected
  snapshot.jobs[4].record.waits_for[9] = When::kEnded;   // of which nothing is known
  const Result<Forecast> next = forecast(snapshot, "fifo", {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_EQ(next->jobs.size(), 3u);
  EXPECT_NEAR(*next->jobs[0].finish_s, 60, 3);
  EXPECT_NEAR(*next->jobs[1].start_s, *next->jobs[0].finish_s, 1) << "although a device is free";
  EXPECT_NEAR(*next->jobs[2].start_s, *next->jobs[1].finish_s, 1);
}

TEST(Forecast, JobsOfAnArrayRunAsManyAtATimeAsTheyMay) {
  Snapshot snapshot{
      .at = 1000, .cluster = Machine{.type = "cpu", .devices = 4}, .policy = {.name = "fifo"}};
  for (JobNumber number = 1; number <= 5; ++number) {
    snapshot.jobs.push_back(queued(number));
    snapshot.jobs.back().record.array = {.first = 1, .name = "a", .size = 5, .at_once = 2};
  }
  const Result<Forecast> next = forecast(snapshot, "fifo", {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_EQ(next->jobs.size(), 5u);
  for (std::size_t i = 2; i < 5; ++i) {
    EXPECT_GE(*next->jobs[i].start_s + 1e-6, *next->jobs[i - 2].finish_s) << i;
  }
  EXPECT_NEAR(*next->jobs[4].finish_s, 3 * *next->jobs[0].finish_s, 3);
}

}  // namespace
}  // namespace rubato::control
