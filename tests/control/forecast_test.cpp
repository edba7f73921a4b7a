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
      .at = 1000, .machine = {.type = "cpu", .devices = 2}, .policy = {.name = "fifo"}};
  snapshot.jobs.push_back(half_done(1, GetParam(), 2));
  const LiveJob live(snapshot.jobs[0].record, snapshot.jobs[0].profile, snapshot.machine);
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
      .at = 1000, .machine = {.type = "cpu", .devices = 2}, .policy = {.name = "fifo"}};
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
  const LiveJob live(job.record, job.profile, {.type = "cpu", .devices = 2});
  EXPECT_GT(*live.seconds_left(2), 0);
}

}  // namespace
}  // namespace rubato::control
