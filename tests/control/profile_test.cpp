// What profiles learn about a program: which sizes are too large and what a resize costs.
#include "control/profile.h"

#include <gtest/gtest.h>

#include "control/live_job.h"

namespace rubato::control {
namespace {

constexpr double kStart = 1'000'000;

// Four workers are slower than two, measured often enough to be trusted.
Profile profile_with_slow_four(double at) {
  Profile profile(4);
  for (int i = 0; i < 5; ++i) {
    profile.note({.devices = 2, .batch = 64, .step_s = 0.010, .at = at});
    profile.note({.devices = 4, .batch = 64, .step_s = 0.020, .at = at});
  }
  return profile;
}

TEST(Profile, ForgetsAfterHalfAnHourThatASizeWasSlower) {
  Profile profile = profile_with_slow_four(kStart);
  EXPECT_EQ(profile.largest_useful(kStart), 2);
  EXPECT_EQ(profile.largest_useful(kStart + Profile::kSlowerForgotten - 1), 2);
  EXPECT_EQ(profile.largest_useful(kStart + Profile::kSlowerForgotten), 0);
  // When the size is tried again and is still slower, one report is enough.
  const double later = kStart + 2 * Profile::kSlowerForgotten;
  profile.note({.devices = 4, .batch = 64, .step_s = 0.020, .at = later});
  EXPECT_EQ(profile.largest_useful(later), 2);
}

// Between nodes a step takes longer: that is no news about the number of devices.
TEST(Profile, ASizeIsAsFastAsOnItsBestNumberOfNodes) {
  Profile profile(8);
  for (int i = 0; i < 5; ++i) {
    profile.note({.devices = 2, .batch = 64, .step_s = 0.040, .at = kStart});
    profile.note({.devices = 4, .nodes = 2, .batch = 64, .step_s = 0.060, .at = kStart});
  }
  EXPECT_EQ(profile.largest_useful(kStart), 2);
  for (int i = 0; i < 5; ++i) {
    profile.note({.devices = 4, .nodes = 1, .batch = 64, .step_s = 0.020, .at = kStart});
  }
  EXPECT_EQ(profile.largest_useful(kStart), 0);
  EXPECT_EQ(profile.points().size(), 3U);
  EXPECT_DOUBLE_EQ(profile.whole_step(4, 1, 64).step_s, 0.020);
  EXPECT_DOUBLE_EQ(profile.whole_step(4, 2, 64).step_s, 0.060);
  EXPECT_EQ(profile.whole_step(4, 2, 64).confidence, Confidence::kMeasured);
  // The nearest that is known: across two nodes, with twice the devices.
  EXPECT_DOUBLE_EQ(profile.whole_step(8, 3, 64).step_s, 0.030);
  EXPECT_EQ(profile.whole_step(8, 3, 64).confidence, Confidence::kExtrapolated);
  EXPECT_DOUBLE_EQ(profile.whole_step(8, 1, 64).step_s, 0.010);

  const auto speed = speed_of(profile);
  EXPECT_DOUBLE_EQ(speed->step_time(Placement(DeviceTypeId(0), {4}), 1).step_s, 0.010);
  EXPECT_DOUBLE_EQ(speed->step_time(Placement(DeviceTypeId(0), {2, 2}), 1).step_s, 0.050);
  const Result<Profile> read = Profile::from_json(profile.to_json());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->to_json(), profile.to_json());
  EXPECT_DOUBLE_EQ(read->whole_step(4, 2, 64).step_s, 0.060);
}

TEST(Profile, OfATimeWithoutNodesIsOfOneMachine) {
  const Result<Profile> read = Profile::from_json(
      {{"logical_workers", 4}, {"points", {{{"devices", 2}, {"batch", 64}, {"step_s", 0.1}}}}});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->points().front().nodes, 1);
  EXPECT_FALSE(Profile::from_json(
                   {{"logical_workers", 4},
                    {"points", {{{"devices", 2}, {"nodes", 3}, {"batch", 64}, {"step_s", 0.1}}}}})
                   .ok());
}

TEST(Profile, OfAnAdaptiveJobKnowsNodesToo) {
  Profile profile(0);
  for (const int devices : {1, 2, 4}) {
    profile.note({.devices = devices, .batch = 64 * devices, .step_s = 0.1});
  }
  profile.note({.devices = 4, .nodes = 2, .batch = 256, .step_s = 0.3});
  const auto speed = speed_of(profile);
  EXPECT_DOUBLE_EQ(speed->step_time(Placement(DeviceTypeId(0), {4}), 64).step_s, 0.1);
  EXPECT_DOUBLE_EQ(speed->step_time(Placement(DeviceTypeId(0), {2, 2}), 64).step_s, 0.3);
}

TEST(Profile, LearnsWhatAResizeCosts) {
  Profile profile(4);
  EXPECT_FALSE(profile.resize_cost());
  for (const double seconds : {0.4, 9.0, 0.5}) profile.note_change(seconds);
  EXPECT_DOUBLE_EQ(*profile.resize_cost(), 0.5);
  profile.note_change(-1);
  profile.note_change(std::numeric_limits<double>::quiet_NaN());
  profile.note_change(1e9);
  EXPECT_DOUBLE_EQ(*profile.resize_cost(), 0.5) << "impossible values are ignored";
  const Result<Profile> read = Profile::from_json(profile.to_json());
  ASSERT_TRUE(read.ok());
  EXPECT_DOUBLE_EQ(*read->resize_cost(), 0.5);
  for (int i = 0; i < 100; ++i) profile.note_change(2);
  EXPECT_DOUBLE_EQ(*profile.resize_cost(), 2);
  EXPECT_LE(profile.to_json()["changes"].size(), 31u);
}

JobRecord record_with_cap(int max_useful) {
  JobRecord record;
  record.number = 1;
  record.document.run = {"./train"};
  record.document.max_devices = 4;
  record.document.logical_workers = 4;
  record.max_useful = max_useful;
  return record;
}

TEST(LiveJob, ItsCapEndsWhenItIsForgotten) {
  const Machine machine{.devices = 4};
  LiveJob job(record_with_cap(0), profile_with_slow_four(kStart), machine);
  job.refresh(record_with_cap(2), kStart);
  EXPECT_EQ(job.spec().max_devices, 2);
  EXPECT_FALSE(job.may_forget_cap(kStart + Profile::kSlowerForgotten - 1));
  const double later = kStart + Profile::kSlowerForgotten;
  EXPECT_TRUE(job.may_forget_cap(later));
  job.refresh(record_with_cap(0), later);
  EXPECT_EQ(job.spec().max_devices, 4);
  EXPECT_FALSE(job.may_forget_cap(later));
}

TEST(LiveJob, ACapThatADaemonFoundIsKeptAsLong) {
  const Machine machine{.devices = 4};
  LiveJob job(record_with_cap(2), Profile(4), machine);
  job.refresh(record_with_cap(2), kStart);
  EXPECT_FALSE(job.may_forget_cap(kStart));
  EXPECT_TRUE(job.may_forget_cap(kStart + Profile::kSlowerForgotten));
}

TEST(LiveJob, TellsTheSchedulerWhatAResizeCosts) {
  const Machine machine{.devices = 4};
  LiveJob job(record_with_cap(0), Profile(4), machine);
  EXPECT_DOUBLE_EQ(job.knowledge().resize_cost_s, 1);
  job.note_change(0.25);
  EXPECT_DOUBLE_EQ(job.knowledge().resize_cost_s, 0.25);
}

}  // namespace
}  // namespace rubato::control
