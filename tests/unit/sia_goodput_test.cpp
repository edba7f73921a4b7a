#include "sched/policies/sia_goodput.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr DeviceTypeId kSlow(std::size_t{0});
constexpr DeviceTypeId kFast(std::size_t{1});

// 0.1 s per sample on a slow device, half of that on a fast one. Fails if it is asked about several
// devices.
class OneDeviceOnly final : public SpeedModel {
 public:
  StepTime step_time(const Placement& placement, std::int64_t local) const override {
    EXPECT_EQ(placement.devices(), 1);
    const double speed = placement.type() == kFast ? 2 : 1;
    return {.step_s = 0.1 * static_cast<double>(local) / speed};
  }
};

class SiaGoodputTest : public testing::Test {
 protected:
  SiaGoodputTest() : learned_(limits()) {
    job_.spec.id = JobId(1);
    job_.spec.batch = limits();
    job_.spec.requested_batch = 64;
    job_.spec.max_devices = 8;
    job_.profiled = &profile_;
    job_.learned = &learned_;
  }

  static BatchLimits limits() {
    return {.initial = 64, .max = 64, .min_local = 1, .max_local = 64};
  }

  void observe() {
    const JobState* jobs[] = {&job_};
    goodput_.observe({.cluster = cluster_,
                      .usable = usable_,
                      .usable_by_type = cluster_.capacity(),
                      .jobs = jobs,
                      .finished = {}});
  }

  double ratio(DeviceTypeId type, int devices) const {
    return goodput_.goodput(job_, type, 1, devices) / goodput_.goodput(job_, kSlow, 1, 1);
  }

  Cluster cluster_ = *Cluster::parse("1x8:slow,1x8:fast");
  std::vector<int> usable_{8, 8};
  OneDeviceOnly profile_;
  LearnedModel learned_;
  JobState job_;
  SiaGoodput goodput_{true};
};

TEST_F(SiaGoodputTest, TheProfileTellsHowFastOneDeviceOfEachTypeIs) {
  observe();
  EXPECT_NEAR(ratio(kFast, 1), 2.0, 0.01);
  // Nothing is known about synchronisation: perfect scaling.
  EXPECT_NEAR(ratio(kSlow, 4), 4.0, 0.05);
  EXPECT_NEAR(ratio(kFast, 4), 8.0, 0.1);
}

TEST_F(SiaGoodputTest, EveryChangeOfAMeasurementArrives) {
  const auto report = [&](int devices, double sync_s, int measurements) {
    const int local = 64 / devices;
    learned_.report({.type = kSlow,
                     .nodes = 1,
                     .devices = devices,
                     .local = local,
                     .step_s = 0.1 * local + sync_s,
                     .sync_s = sync_s,
                     .measurements = measurements},
                    {.squared_norm = 1, .variance = 1});
    observe();
  };
  report(4, 30, 1);  // with its warm-up
  EXPECT_LT(ratio(kSlow, 4), 0.5);
  report(2, 0.1, 1);
  report(4, 0.1, 8);
  EXPECT_GT(ratio(kSlow, 4), 3);
}

TEST_F(SiaGoodputTest, ScalingOnOneTypeIsExpectedOnTheOthers) {
  // Two slow devices take 3.2 s for their 32 samples each and 3.2 s to synchronise: no gain.
  learned_.report(
      {.type = kSlow, .nodes = 1, .devices = 2, .local = 32, .step_s = 6.4, .sync_s = 3.2},
      {.squared_norm = 1, .variance = 1});
  observe();
  EXPECT_NEAR(ratio(kSlow, 2), 1.0, 0.1);
  EXPECT_NEAR(ratio(kFast, 1), 2.0, 0.01);
  EXPECT_NEAR(ratio(kFast, 2), ratio(kFast, 1) * ratio(kSlow, 2), 1e-9);

  // Measured there: two fast devices take 1.6 + 0.1 s, against 3.2 s on one.
  learned_.report(
      {.type = kFast, .nodes = 1, .devices = 2, .local = 32, .step_s = 1.7, .sync_s = 0.1},
      {.squared_norm = 1, .variance = 1});
  observe();
  EXPECT_NEAR(ratio(kSlow, 2), 1.0, 0.1);
  EXPECT_NEAR(ratio(kFast, 2), 6.4 / 1.7, 0.1);
}

}  // namespace
}  // namespace rubato
