// Splitting batches, and the value of a sample in a large batch.
#include "model/batch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/efficiency.h"

namespace rubato {
namespace {

constexpr BatchLimits kBatchLimits{.initial = 128, .max = 4096, .min_local = 32, .max_local = 1024};

TEST(BatchShape, TotalCountsAllMicroBatchesOfAllDevices) {
  EXPECT_EQ((BatchShape{.local = 32, .accumulation = 0}).total(4), 128);
  EXPECT_EQ((BatchShape{.local = 100, .accumulation = 2}).total(4), 1200);  // 4 x 100 x 3
  EXPECT_EQ((BatchShape{.local = 1'000'000'000, .accumulation = 1}).total(1000), 2'000'000'000'000);
  EXPECT_FALSE(BatchLimits{}.known());
  EXPECT_TRUE(kBatchLimits.known());
}

TEST(SplitBatch, OneMicroBatchWhereItFits) {
  EXPECT_EQ(split_batch(512, 4, kBatchLimits), (BatchShape{128, 0}));
  EXPECT_EQ(split_batch(4096, 4, kBatchLimits), (BatchShape{1024, 0}));  // exactly the largest
}

TEST(SplitBatch, RoundsTheMicroBatchUp) {
  // ceil(500 / 3) = 167: 501 in all.
  EXPECT_EQ(split_batch(500, 3, kBatchLimits), (BatchShape{167, 0}));
}

TEST(SplitBatch, AccumulatesTheFewestMicroBatchesThatFit) {
  // 2050 on each of two devices... ceil(4096 / 2) = 2048 needs 2 of at most 1024.
  EXPECT_EQ(split_batch(4096, 2, kBatchLimits), (BatchShape{1024, 1}));
  // ceil(3500 / 2) = 1750 in 2: 875 each.
  EXPECT_EQ(split_batch(3500, 2, kBatchLimits), (BatchShape{875, 1}));
  // ceil(4000 / 1) = 4000 in 4: 1000 each.
  EXPECT_EQ(split_batch(4000, 1, kBatchLimits), (BatchShape{1000, 3}));
  // 2049 does not fit in two of 1024: three of 683.
  EXPECT_EQ(split_batch(2049, 1, kBatchLimits), (BatchShape{683, 2}));
}

TEST(SplitBatch, OneDeviceBeyondItsInitialBatchAccumulates) {
  EXPECT_EQ(split_batch(128, 1, kBatchLimits), (BatchShape{128, 0}));  // the initial batch itself
  EXPECT_EQ(split_batch(129, 1, kBatchLimits), (BatchShape{65, 1}));   // ceil(129 / 2)
  EXPECT_EQ(split_batch(512, 1, kBatchLimits), (BatchShape{256, 1}));
  EXPECT_EQ(split_batch(512, 1, kBatchLimits, false), (BatchShape{512, 0}));
  EXPECT_EQ(split_batch(512, 2, kBatchLimits), (BatchShape{256, 0}));  // not needed on two devices
  EXPECT_EQ(split_batch(2000, 1, kBatchLimits), (BatchShape{1000, 1}));  // accumulates anyway
}

TEST(SplitBatch, NeverExceedsTheLargestBatch) {
  constexpr BatchLimits kOdd{.initial = 10, .max = 100, .min_local = 1, .max_local = 50};
  // ceil(100 / 3) = 34 would give 102: floor(100 / 3) = 33.
  EXPECT_EQ(split_batch(100, 3, kOdd), (BatchShape{33, 0}));
  // One device, 2 micro-batches of ceil(99 / 2) = 50 are 100: allowed.
  EXPECT_EQ(split_batch(99, 1, kOdd), (BatchShape{50, 1}));
  for (int devices = 1; devices <= 100; ++devices) {
    for (std::int64_t total = 10; total <= 100; ++total) {
      const BatchShape shape = split_batch(total, devices, kOdd);
      ASSERT_LE(shape.total(devices), 100) << total << " on " << devices;
      ASSERT_GE(shape.local, 1) << total << " on " << devices;
      ASSERT_LE(shape.local, 50) << total << " on " << devices;
      // At least as much as requested, unless that would exceed the maximum.
      const std::int64_t one_less = shape.total(devices) + devices * (shape.accumulation + 1);
      ASSERT_TRUE(shape.total(devices) >= total || one_less > 100) << total << " on " << devices;
    }
  }
}

// --- statistical efficiency ----------------------------------------------------------------------

TEST(Efficiency, GainOfAnUpdate) {
  // var 3, sqr 1: (3 + 1) / (3 / s + 1).
  const GradientNoise noise{.squared_norm = 1, .variance = 3};
  EXPECT_DOUBLE_EQ(update_gain(noise, 1), 1);
  EXPECT_DOUBLE_EQ(update_gain(noise, 2), 1.6);       // 4 / 2.5
  EXPECT_DOUBLE_EQ(update_gain(noise, 3), 2);         // 4 / 2
  EXPECT_DOUBLE_EQ(update_gain(noise, 0.5), 4. / 7);  // 4 / (6 + 1)
  EXPECT_NEAR(update_gain(noise, 1e12), 4, 1e-9);     // never more than (var + sqr) / sqr
}

TEST(Efficiency, GainAtTheEdges) {
  EXPECT_EQ(update_gain({.squared_norm = 0, .variance = 0}, 8), 1);  // no estimate
  EXPECT_EQ(update_gain({.squared_norm = 2, .variance = 0}, 8), 1);  // no noise: larger batches do
                                                                     // not help
  EXPECT_EQ(update_gain({.squared_norm = 0, .variance = 2}, 8), 8);  // noise only: perfect
}

TEST(Efficiency, IsTheShareOfSamplesThatStillHelp) {
  // phi = M0 var / sqr = 100 x 3 / 1 = 300; (phi + M0) / (phi + M).
  const GradientNoise noise{.squared_norm = 1, .variance = 3};
  EXPECT_DOUBLE_EQ(statistical_efficiency(noise, 100, 100), 1);
  EXPECT_DOUBLE_EQ(statistical_efficiency(noise, 200, 100), 0.8);  // 400 / 500
  EXPECT_DOUBLE_EQ(statistical_efficiency(noise, 500, 100), 0.5);  // 400 / 800
  // The same with another scale of the gradient.
  EXPECT_DOUBLE_EQ(statistical_efficiency({.squared_norm = 0.01, .variance = 0.03}, 500, 100), 0.5);
}

TEST(Efficiency, FallsWithTheBatchAndStaysBetween0And1) {
  const GradientNoise noise{.squared_norm = 0.2, .variance = 5};
  double last = 2;
  for (double batch = 32; batch < 1e7; batch *= 2) {
    const double efficiency = statistical_efficiency(noise, batch, 32);
    EXPECT_LT(efficiency, last);
    EXPECT_GT(efficiency, 0);
    EXPECT_LE(efficiency, 1);
    last = efficiency;
  }
}

}  // namespace
}  // namespace rubato
