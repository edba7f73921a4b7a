// What the live jobs measure reaches the policies: every size in any order, and every change.
#include <gtest/gtest.h>

#include "control/live_job.h"
#include "sched/policies/rubato_outlook.h"
#include "sched/policies/sia_goodput.h"

namespace rubato::control {
namespace {

constexpr double kNow = 1'000'000;
const DeviceTypeId kCpu(std::size_t{0});

JobRecord a_job(JobNumber number = 1) {
  JobRecord record;
  record.number = number;
  record.tenant = "red";
  record.document.run = {"./train"};
  record.document.max_devices = 4;
  record.document.logical_workers = 4;
  return record;
}

class Learning : public testing::Test {
 protected:
  // The job reports a step time; then the policies decide.
  void measure(LiveJob& job, int devices, Seconds step_s) {
    job.report({.step = 10,
                .total_steps = 1000,
                .batch = 64,
                .workers = devices,
                .logical_workers = 4,
                .step_s = step_s},
               ++now_);
    observe(job);
  }
  void observe(LiveJob& job) {
    const JobKnowledge known = job.knowledge();
    state_.spec = job.spec();
    state_.learned = known.learned;
    state_.profiled = known.profiled;
    state_.progress = known.progress;
    const JobState* jobs[] = {&state_};
    const PolicyInput input{.now_s = now_,
                            .cluster = cluster_,
                            .usable = usable_,
                            .usable_by_type = cluster_.capacity(),
                            .jobs = jobs,
                            .finished = {}};
    book_.observe(input);
    sia_.observe(input);
    outlook_ = book_.outlook(state_, input);
  }
  // Speed relative to one device, as the policies see it.
  double rubato(int devices) const { return book_.speed(outlook_, kCpu, devices, cluster_); }
  double sia(int devices) const {
    return sia_.goodput(state_, kCpu, 1, devices) / sia_.goodput(state_, kCpu, 1, 1);
  }

  double now_ = kNow;
  Machine machine_{.type = "cpu", .devices = 4};
  Cluster cluster_ = *Cluster::parse("1x4");
  std::vector<int> usable_{4};
  JobState state_;
  OutlookBook book_{OutlookOptions{}};
  SiaGoodput sia_{false};
  Outlook outlook_;
};

TEST_F(Learning, SizesArriveInAnyOrder) {
  LiveJob job(a_job(), Profile(4), machine_);
  measure(job, 1, 0.4);
  measure(job, 4, 0.1);
  EXPECT_GT(rubato(2), 1.5);
  measure(job, 2, 0.8);  // for some reason, slower than one
  EXPECT_LT(rubato(2), 0.8);
  EXPECT_LT(sia(2), 1.2);
  EXPECT_EQ(state_.learned->observations(kCpu).size(), 3U);
}

TEST_F(Learning, AFirstMeasurementWithItsWarmUpIsReplaced) {
  LiveJob job(a_job(), Profile(4), machine_);
  for (int i = 0; i < 4; ++i) measure(job, 1, 0.4);
  measure(job, 4, 4);
  EXPECT_LT(rubato(4), 0.5);
  EXPECT_LT(sia(4), 0.7);
  for (int i = 0; i < 4; ++i) measure(job, 4, 0.1);
  EXPECT_GT(rubato(4), 3);
  EXPECT_GT(sia(4), 3);
}

TEST_F(Learning, AProgramThatBecomesSlowerIsNoticed) {
  LiveJob job(a_job(), Profile(4), machine_);
  for (int i = 0; i < 8; ++i) measure(job, 1, 0.4);
  for (int i = 0; i < 8; ++i) measure(job, 4, 0.1);
  EXPECT_GT(rubato(4), 3);
  for (int i = 0; i < 60; ++i) measure(job, 4, 0.3);
  EXPECT_LT(rubato(4), 1.8);
}

TEST(ProfileWarmUp, TheSecondMeasurementReplacesTheFirstAndLaterOnesAreAveraged) {
  Profile profile(4);
  profile.note({.devices = 1, .batch = 64, .step_s = 8, .at = kNow});
  EXPECT_EQ(profile.note({.devices = 1, .batch = 64, .step_s = 1, .at = kNow}),
            Profile::News::kMoved);
  EXPECT_DOUBLE_EQ(profile.points()[0].step_s, 1);
  profile.note({.devices = 1, .batch = 64, .step_s = 2, .at = kNow});
  EXPECT_DOUBLE_EQ(profile.points()[0].step_s, 1.25);
  // What is stored was measured often.
  Profile stored = *Profile::from_json(profile.to_json());
  stored.note({.devices = 1, .batch = 64, .step_s = 5.25, .at = kNow});
  EXPECT_DOUBLE_EQ(stored.points()[0].step_s, 2.25);
}

TEST(LiveJobLength, AProgramWithoutEpochsCountsAsOne) {
  const Machine machine{.type = "cpu", .devices = 4};
  LiveJob job(a_job(), Profile(4), machine);
  EXPECT_EQ(job.spec().epochs, 0);
  job.report({.step = 250, .total_steps = 1000, .batch = 8, .workers = 1, .step_s = 1}, kNow);
  job.refresh(a_job(), kNow);
  EXPECT_EQ(job.spec().epochs, 1);
  EXPECT_DOUBLE_EQ(job.epochs_done(kNow), 0.25);
  // A job that has not started knows it from the program's profile.
  const LiveJob next(a_job(2), job.profile(), machine);
  EXPECT_EQ(next.spec().epochs, 1);
  EXPECT_DOUBLE_EQ(next.epochs_done(kNow), 0);
}

TEST(LiveJobSizes, ItsRangeHasPowersOfTwoOnly) {
  const Machine machine{.type = "cpu", .devices = 8};
  JobRecord record = a_job();
  record.document.power_of_two_sizes = true;
  record.document.min_devices = 3;
  record.document.max_devices = 8;
  record.document.logical_workers = 8;
  LiveJob job(record, Profile(8), machine);
  EXPECT_EQ(job.spec().min_devices, 4);
  EXPECT_EQ(job.spec().max_devices, 8);
  EXPECT_EQ(job.spec().requested_devices, 4);
  record.max_useful = 3;  // less than it can have
  job.refresh(record, kNow);
  EXPECT_EQ(job.spec().max_devices, 4);
}

// --- Keys of profiles

JobRecord keyed(const std::vector<std::string>& run) {
  JobRecord record = a_job();
  record.document.run = run;
  record.document.dir = "/home/red";
  return record;
}

TEST(ProfileKey, IsThatOfWhatDecidesSpeed) {
  const JobRecord job = keyed({"./train", "--layers", "4"});
  const std::string key = profile_key(job, "a100");
  const auto differs = [&](const std::function<void(JobRecord&)>& change) {
    JobRecord other = job;
    change(other);
    return profile_key(other, "a100") != key;
  };
  EXPECT_TRUE(differs([](JobRecord& r) { r.tenant = "blue"; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.dir = "/home/blue"; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.run[2] = "8"; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.run[0] = "./other"; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.mode = ElasticMode::kAdaptive; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.logical_workers = 8; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.device_type = "v100"; }));
  EXPECT_TRUE(differs([](JobRecord& r) { r.document.env["OMP_NUM_THREADS"] = "1"; }));
  EXPECT_NE(profile_key(job, "v100"), key);
  EXPECT_FALSE(differs([](JobRecord& r) { r.number = 7; }));
  EXPECT_FALSE(differs([](JobRecord& r) { r.document.priority = 7; }));
  EXPECT_FALSE(differs([](JobRecord& r) { r.document.device_type = "a100"; }));
}

TEST(ProfileKey, SeedsAndPlacesOfOutputDoNotMatter) {
  const std::string key = profile_key(keyed({"./train", "--layers", "4"}), "cpu");
  EXPECT_EQ(profile_key(keyed({"./train", "--seed", "3", "--layers", "4"}), "cpu"), key);
  EXPECT_EQ(profile_key(keyed({"./train", "--layers", "4", "--out=/a", "--lr", "-1"}), "cpu"), key);
  EXPECT_EQ(profile_key(keyed({"./train", "--Learning_Rate", "1", "--layers", "4"}), "cpu"), key);
  EXPECT_NE(profile_key(keyed({"./train", "--seedling", "3", "--layers", "4"}), "cpu"), key);
  // A flag without a value takes nothing with it.
  EXPECT_EQ(profile_key(keyed({"./train", "--save", "--layers", "4"}), "cpu"), key);
}

TEST(ProfileKey, ANameReplacesTheProgramWithinATenant) {
  JobRecord one = keyed({"./train", "--layers", "4"});
  JobRecord other = keyed({"./train", "--layers", "8"});
  one.document.profile = other.document.profile = "resnet";
  other.document.dir = "/elsewhere";
  EXPECT_EQ(profile_key(one, "cpu"), profile_key(other, "cpu"));
  other.tenant = "blue";
  EXPECT_NE(profile_key(one, "cpu"), profile_key(other, "cpu"));
  const nlohmann::json parts = profile_key_parts(one, "cpu");
  EXPECT_EQ(parts["profile"], "resnet");
  EXPECT_FALSE(parts.contains("program"));
}

TEST(ProfileKey, ItsPartsTellNoSecrets) {
  JobRecord job = keyed({"./train"});
  job.document.env["TOKEN"] = "very secret";
  const nlohmann::json parts = profile_key_parts(job, "cpu");
  EXPECT_EQ(parts["env"], nlohmann::json::array({"TOKEN"}));
  EXPECT_EQ(parts["program"], "./train");
  EXPECT_EQ(parts["device_type"], "cpu");
  EXPECT_EQ(parts["tenant"], "red");
}

TEST(ProfileKey, WhatOneTenantMeasuredIsNotKnownToAnother) {
  State state;
  Profile measured(4);
  measured.note({.devices = 1, .batch = 64, .step_s = 1});
  const JobRecord red = keyed({"./train"});
  state.profiles[profile_key(red, "cpu")] = measured.to_json();
  EXPECT_FALSE(known_profile(state, red, "cpu").empty());
  JobRecord blue = red;
  blue.tenant = "blue";
  EXPECT_TRUE(known_profile(state, blue, "cpu").empty());
}

}  // namespace
}  // namespace rubato::control
