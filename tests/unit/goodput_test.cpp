// Goodput, the best batch, and what is learned about a job from its reports.
#include "model/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/learned.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

constexpr DeviceTypeId kOther{1};
constexpr PerfParams kParams{.alpha_c = 0.1,
                             .beta_c = 0.001,
                             .alpha_n = 0.2,
                             .beta_n = 0.03,
                             .alpha_r = 0.05,
                             .beta_r = 0.01,
                             .gamma = 1};
constexpr GradientNoise kNoNoise{.squared_norm = 1, .variance = 0};   // a larger batch is useless
constexpr GradientNoise kAllNoise{.squared_norm = 0, .variance = 1};  // every sample helps fully
constexpr BatchLimits kGoodputLimits{.initial = 100, .max = 400, .min_local = 10, .max_local = 200};

TEST(BestBatch, OneAllowedBatch) {
  // 100 on 4 devices of a node: m = 25, computing 0.125, synchronising 0.05 + 0.01 x 2 = 0.07.
  // 100 / 0.195 = 512.82 samples/s, efficiency 1.
  constexpr BatchLimits kOne{.initial = 100, .max = 100, .min_local = 10, .max_local = 200};
  const BestBatch best = best_batch(kParams, {.squared_norm = 1, .variance = 3}, kOne, 1, 4);
  EXPECT_EQ(best.shape, (BatchShape{25, 0}));
  EXPECT_NEAR(best.goodput, 100 / 0.195, 1e-4);
}

TEST(BestBatch, WithoutNoiseTheSmallestIsBest) {
  const BestBatch best = best_batch(kParams, kNoNoise, kGoodputLimits, 1, 4);
  EXPECT_EQ(best.shape, (BatchShape{25, 0}));
  EXPECT_NEAR(best.goodput, 100 / 0.195, 1e-4);
}

TEST(BestBatch, WithNoiseOnlyTheLargestIsBest) {
  // 400 on 4 devices: m = 100, 0.2 + 0.07: 400 / 0.27.
  const BestBatch best = best_batch(kParams, kAllNoise, kGoodputLimits, 1, 4);
  EXPECT_EQ(best.shape, (BatchShape{100, 0}));
  EXPECT_NEAR(best.goodput, 400 / 0.27, 1e-3);
  // Across nodes: 0.2 + 0.2 + 0.03 x 2 = 0.46.
  EXPECT_NEAR(best_batch(kParams, kAllNoise, kGoodputLimits, 2, 4).goodput, 400 / 0.46, 1e-3);
}

TEST(BestBatch, OneDeviceAccumulatesBeyondItsInitialBatch) {
  // 400 in two micro-batches of 200, each 0.3: 400 / 0.6.
  const BestBatch best = best_batch(kParams, kAllNoise, kGoodputLimits, 1, 1);
  EXPECT_EQ(best.shape, (BatchShape{200, 1}));
  EXPECT_NEAR(best.goodput, 400 / 0.6, 1e-3);
}

TEST(BestBatch, AccumulationSynchronisesOnlyOnce) {
  // 4000 on 2 devices: 2000 each in 10 of 200. 9 x 0.3 + (0.3 + 0.05) = 3.05.
  constexpr BatchLimits kLarge{.initial = 4000, .max = 4000, .min_local = 10, .max_local = 200};
  const BestBatch best = best_batch(kParams, kAllNoise, kLarge, 1, 2);
  EXPECT_EQ(best.shape, (BatchShape{200, 9}));
  EXPECT_NEAR(best.goodput, 4000 / 3.05, 1e-3);
}

TEST(BestBatch, OverlapShortensTheStep) {
  // 400 on 4 devices with gamma 2: sqrt(0.2^2 + 0.07^2) = 0.2118962.
  PerfParams params = kParams;
  params.gamma = 2;
  EXPECT_NEAR(best_batch(params, kAllNoise, kGoodputLimits, 1, 4).goodput, 400 / 0.2118962, 0.01);
}

TEST(BestBatch, AMediumNoiseHasItsBestBatchInTheMiddle) {
  // Goodput(M) = M / (0.17 + 0.00025 M) x (phi + 100) / (phi + M) is best where its derivative is
  // 0: M^2 = 0.17 phi / 0.00025; with phi = 90: M = sqrt(61200) = 247.4.
  const GradientNoise noise{.squared_norm = 1, .variance = 0.9};
  const BestBatch best = best_batch(kParams, noise, kGoodputLimits, 1, 4);
  const auto total = static_cast<double>(best.shape.total(4));
  EXPECT_NEAR(total, 247.4, 8);
  EXPECT_NEAR(best.goodput, total / (0.17 + 0.00025 * total) * 190 / (90 + total), 1e-3);
  EXPECT_NEAR(best.goodput, 247.4 / (0.17 + 0.00025 * 247.4) * 190 / (90 + 247.4), 0.5);
}

TEST(BestBatch, StaysWithinTheLimitsUpToRounding) {
  for (int devices = 1; devices <= 40; ++devices) {
    for (const GradientNoise& noise : {kNoNoise, kAllNoise, GradientNoise{1, 2}}) {
      const BestBatch best =
          best_batch(kParams, noise, kGoodputLimits, devices > 4 ? 2 : 1, devices);
      ASSERT_GT(best.goodput, 0) << devices;
      EXPECT_GE(best.shape.local, kGoodputLimits.min_local) << devices;
      EXPECT_LE(best.shape.local, kGoodputLimits.max_local) << devices;
      EXPECT_GE(best.shape.total(devices), kGoodputLimits.initial) << devices;
      // The micro-batch is rounded up.
      EXPECT_LT((best.shape.local - 1) * devices * (best.shape.accumulation + 1),
                kGoodputLimits.max)
          << devices;
    }
  }
}

TEST(BestBatch, TooManyDevicesForTheLargestBatchHaveNoGoodput) {
  // 41 devices need at least 41 x 10 = 410 samples; 400 are allowed.
  EXPECT_EQ(best_batch(kParams, kAllNoise, kGoodputLimits, 2, 41).goodput, 0);
  EXPECT_EQ(best_batch(kParams, kAllNoise, kGoodputLimits, 2, 1000).goodput, 0);
}

// --- learned models ------------------------------------------------------------------------------

Observation observation(DeviceTypeId type, int nodes, int devices, std::int64_t local,
                        double scale = 1) {
  const double compute = scale * kParams.compute_s(static_cast<double>(local));
  const double sync = devices == 1 ? 0 : scale * kParams.sync_s(nodes, devices);
  return {.type = type,
          .nodes = nodes,
          .devices = devices,
          .local = local,
          .step_s = compute + sync,
          .sync_s = sync};
}

TEST(LearnedModel, StartsEmpty) {
  const LearnedModel model(kGoodputLimits);
  EXPECT_TRUE(model.empty());
  EXPECT_EQ(model.max_profiled_devices(), 0);
  EXPECT_EQ(model.limits().max, 400);
}

TEST(LearnedModelDeathTest, MustNotBeAskedWhileEmpty) {
  const LearnedModel model(kGoodputLimits);
  EXPECT_DEATH(static_cast<void>(model.params(kType)), "before its first report");
}

TEST(LearnedModel, LearnsFromReports) {
  LearnedModel model(kGoodputLimits);
  for (const int devices : {1, 2, 4}) {
    for (const std::int64_t local : {25, 50, 100}) {
      model.report(observation(kType, 1, devices, local), kAllNoise);
    }
  }
  EXPECT_FALSE(model.empty());
  EXPECT_EQ(model.max_profiled_devices(), 4);
  EXPECT_NEAR(model.params(kType).step_s(1, 4, 100), 0.27, 0.003);
  EXPECT_EQ(model.best(kType, 1, 4).shape, (BatchShape{100, 0}));
  EXPECT_NEAR(model.best(kType, 1, 4).goodput, 400 / 0.27, 15);
}

TEST(LearnedModel, AKnownConfigurationUpdatesOnlyTheNoise) {
  LearnedModel model(kGoodputLimits);
  model.report(observation(kType, 1, 4, 25), kNoNoise);
  model.report(observation(kType, 1, 4, 100), kNoNoise);
  const PerfParams before = model.params(kType);
  EXPECT_EQ(model.best(kType, 1, 4).shape.local, 25);
  // The same configuration, three times as slow: the time is ignored, the noise is used.
  model.report(observation(kType, 1, 4, 25, 3), kAllNoise);
  EXPECT_EQ(model.noise().variance, 1);
  EXPECT_EQ(model.params(kType).alpha_c, before.alpha_c);
  EXPECT_EQ(model.params(kType).beta_c, before.beta_c);
  EXPECT_EQ(model.best(kType, 1, 4).shape.local, 100);  // the memoised result was dropped
}

TEST(LearnedModel, ANewConfigurationIsFitted) {
  LearnedModel model(kGoodputLimits);
  model.report(observation(kType, 1, 1, 50), kAllNoise);
  const double optimistic = model.best(kType, 1, 4).goodput;  // communication is assumed to be free
  model.report(observation(kType, 1, 4, 50), kAllNoise);
  EXPECT_LT(model.best(kType, 1, 4).goodput, optimistic);
  EXPECT_EQ(model.max_profiled_devices(), 4);
}

TEST(LearnedModel, AnUnknownTypeBorrowsFromAnother) {
  LearnedModel model(kGoodputLimits);
  model.report(observation(kType, 1, 1, 50), kAllNoise);
  EXPECT_EQ(model.params(kOther).alpha_c, model.params(kType).alpha_c);
  EXPECT_EQ(model.best(kOther, 1, 2).goodput, model.best(kType, 1, 2).goodput);
  // Until the type has its own reports, half the speed is assumed there.
  model.report(observation(kOther, 1, 1, 50, 2), kAllNoise);
  EXPECT_NEAR(model.params(kOther).compute_s(50), 0.3, 0.003);
  EXPECT_NEAR(model.params(kType).compute_s(50), 0.15, 0.0015);
}

TEST(LearnedModel, WhereItIsFurtherThanOneNodeDoesNotMatter) {
  LearnedModel model(kGoodputLimits);
  model.report(observation(kType, 1, 2, 50), kAllNoise);
  EXPECT_EQ(model.best(kType, 2, 4).goodput, model.best(kType, 4, 4).goodput);
  EXPECT_GE(model.best(kType, 1, 4).goodput, model.best(kType, 2, 4).goodput);
}

}  // namespace
}  // namespace rubato
