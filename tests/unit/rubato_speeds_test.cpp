#include "sched/policies/rubato_speeds.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr BatchLimits kSpeedLimits{.initial = 128, .max = 4096, .min_local = 32, .max_local = 512};
constexpr GradientNoise kNoise{.squared_norm = 1, .variance = 20};
const NoiseCurve kCurve = NoiseCurve::flat(20);

JobSpec adaptive_job() {
  JobSpec spec;
  spec.mode = ElasticMode::kAdaptive;
  spec.max_devices = 16;
  spec.batch = kSpeedLimits;
  spec.requested_batch = kSpeedLimits.initial;
  return spec;
}

Observation observed(std::size_t type, int nodes, int devices, std::int64_t local, double step,
                     double sync) {
  return {.type = DeviceTypeId(type),
          .nodes = nodes,
          .devices = devices,
          .local = local,
          .step_s = step,
          .sync_s = sync};
}

TEST(RubatoSpeeds, VersionCountsNewConfigurationsOnly) {
  SharedSpeeds speeds(kSpeedLimits, true, true);
  const std::size_t before = speeds.version();
  speeds.report(observed(0, 1, 1, 128, 0.2, 0), kNoise);
  EXPECT_EQ(speeds.version(), before + 1);
  speeds.report(observed(0, 1, 1, 128, 0.3, 0), kNoise);
  EXPECT_EQ(speeds.version(), before + 1);
  EXPECT_TRUE(speeds.measured_on(DeviceTypeId(0)));
  EXPECT_FALSE(speeds.measured_on(DeviceTypeId(1)));
}

TEST(RubatoSpeeds, CorrectsTheFitWhereItWasMeasured) {
  // No parametric model fits all of these; the corrected one comes close.
  SharedSpeeds fitted(kSpeedLimits, false, true);
  SharedSpeeds corrected(kSpeedLimits, true, true);
  JobSpec spec = adaptive_job();
  spec.mode = ElasticMode::kConsistent;
  for (SharedSpeeds* speeds : {&fitted, &corrected}) {
    speeds->report(observed(0, 1, 1, 128, 0.20, 0), kNoise);
    speeds->report(observed(0, 1, 2, 64, 0.30, 0.2), kNoise);
    speeds->report(observed(0, 1, 4, 32, 0.10, 0.05), kNoise);
  }
  const auto error = [&](const SharedSpeeds& speeds) {
    const double found = speeds.goodput(spec, kCurve, DeviceTypeId(0), 1, 2);
    return std::abs(found / (128 / 0.30) - 1);
  };
  EXPECT_LT(error(corrected), 0.05);
  EXPECT_LT(error(corrected), error(fitted));
}

TEST(RubatoSpeeds, LogicalWorkersNeedNotDivideEvenly) {
  SharedSpeeds speeds({.initial = 6, .max = 6, .min_local = 1, .max_local = 1}, true, true);
  speeds.report(observed(0, 1, 1, 1, 0.03, 0), {});
  JobSpec spec;
  spec.batch = {.initial = 6, .max = 6, .min_local = 1, .max_local = 1};
  spec.requested_batch = spec.logical_workers = 6;
  const auto steps_per_s = [&](int devices) {
    return speeds.goodput(spec, NoiseCurve::flat(0), DeviceTypeId(0), 1, devices) / 6;
  };
  // The busiest device has 6, 3, 2, 2, 2 and 1 of them.
  EXPECT_NEAR(steps_per_s(2) / steps_per_s(1), 2, 0.01);
  EXPECT_NEAR(steps_per_s(3) / steps_per_s(1), 3, 0.01);
  EXPECT_NEAR(steps_per_s(4) / steps_per_s(1), 3, 0.01);
  EXPECT_NEAR(steps_per_s(6) / steps_per_s(1), 6, 0.01);
}

TEST(RubatoSpeeds, TakesSynchronisationFromAnotherTypeUntilItIsMeasured) {
  SharedSpeeds speeds(kSpeedLimits, true, true);
  speeds.report(observed(0, 1, 1, 128, 0.40, 0), kNoise);
  speeds.report(observed(0, 1, 4, 128, 0.60, 0.2), kNoise);
  speeds.report(observed(1, 1, 1, 128, 0.10, 0), kNoise);
  const JobSpec spec = adaptive_job();
  const double one = speeds.goodput(spec, kCurve, DeviceTypeId(1), 1, 1);
  const double four = speeds.goodput(spec, kCurve, DeviceTypeId(1), 1, 4);
  // Without the synchronisation measured on the other type, four devices would be about four times
  // as fast.
  EXPECT_LT(four, 2.5 * one);
  EXPECT_GT(one, 2 * speeds.goodput(spec, kCurve, DeviceTypeId(0), 1, 1));
}

TEST(RubatoSpeeds, TriesBatchesThatNobodyMeasured) {
  const JobSpec spec = adaptive_job();
  const DeviceTypeId type(0);
  SharedSpeeds careful(kSpeedLimits, true, false);
  SharedSpeeds hopeful(kSpeedLimits, true, true);
  for (SharedSpeeds* speeds : {&careful, &hopeful}) {
    speeds->report(observed(0, 1, 1, 128, 0.128, 0), kNoise);
  }
  EXPECT_EQ(careful.to_try(spec, kCurve, type, 1, 1), careful.best(spec, kCurve, type, 1, 1).shape);
  const BatchShape tried = hopeful.to_try(spec, kCurve, type, 1, 1);
  EXPECT_NE(tried.local, 128);
  // The prediction for a size changes less, and a disappointing measurement counts.
  const double expected = careful.goodput(spec, kCurve, type, 1, 1);
  EXPECT_GE(hopeful.goodput(spec, kCurve, type, 1, 1), expected);
  EXPECT_LT(hopeful.goodput(spec, kCurve, type, 1, 1), 1.1 * expected);
  hopeful.report(observed(0, 1, 1, tried.local, static_cast<double>(tried.local) / 100, 0), kNoise);
  EXPECT_FALSE(hopeful.to_try(spec, kCurve, type, 1, 1) == tried);
}

TEST(RubatoSpeeds, AccumulatedMicroBatchesTakeAsLongAsTheyComputed) {
  // Almost all of a step is synchronisation, so a second micro-batch before it costs little.
  SharedSpeeds speeds(kSpeedLimits, true, false);
  speeds.report(observed(0, 2, 8, 512, 1.0, 0.9), kNoise);
  JobSpec spec = adaptive_job();
  spec.mode = ElasticMode::kConsistent;
  spec.batch.max = 8192;
  spec.requested_batch = 8192;
  const double efficiency = kCurve.efficiency(64, 6);
  EXPECT_NEAR(speeds.goodput(spec, kCurve, DeviceTypeId(0), 2, 8), 8192 / 1.1 * efficiency,
              0.03 * 8192 * efficiency);
}

TEST(RubatoSpeeds, MemoForgetsWhenVersionOrNoiseChange) {
  SpeedMemo memo;
  memo.refresh(1, kCurve);
  memo.goodput[0] = {1, 2};
  memo.refresh(1, kCurve);
  EXPECT_EQ(memo.goodput[0].size(), 2U);
  memo.refresh(2, kCurve);
  EXPECT_TRUE(memo.goodput[0].empty());
  memo.goodput[0] = {1, 2};
  memo.refresh(2, NoiseCurve::flat(21));
  EXPECT_TRUE(memo.goodput[0].empty());
}

}  // namespace
}  // namespace rubato
