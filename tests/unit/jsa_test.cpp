// Predictions from little data: the Job Scalability Analyzer, and a stated scaling law.
#include "model/jsa.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/scaling_law.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

constexpr Network kNetwork{.within_node = {.bytes_per_s = 10e9, .latency_s = 1e-4},
                           .within_rack = {.bytes_per_s = 1e9, .latency_s = 1e-3},
                           .across_racks = {.bytes_per_s = 1e8, .latency_s = 1e-2}};

TEST(RingAllReduce, SendsEveryByteAlmostTwice) {
  const NetworkTier tier{.bytes_per_s = 1e9, .latency_s = 1e-3};
  EXPECT_EQ(ring_allreduce_s(1e9, 1, tier), 0);
  EXPECT_EQ(ring_allreduce_s(1e9, 0, tier), 0);
  // 2 (k-1) latency + 2 (k-1)/k bytes / bandwidth
  EXPECT_DOUBLE_EQ(ring_allreduce_s(1e9, 2, tier), 1.002);  // 2 ms + 1 s
  EXPECT_DOUBLE_EQ(ring_allreduce_s(1e9, 4, tier), 1.506);  // 6 ms + 1.5 s
  EXPECT_DOUBLE_EQ(ring_allreduce_s(0, 4, tier), 0.006);
}

JsaSpeed analyzer() {
  // Out of order on purpose.
  return {
      {{.local = 32, .seconds = 0.3}, {.local = 8, .seconds = 0.1}, {.local = 16, .seconds = 0.15}},
      2e8,
      kNetwork};
}

TEST(Jsa, ProcessingIsLinearBetweenMeasurementsAndProportionalBeyond) {
  const JsaSpeed speed = analyzer();
  EXPECT_DOUBLE_EQ(speed.processing_s(8), 0.1);
  EXPECT_DOUBLE_EQ(speed.processing_s(16), 0.15);
  EXPECT_DOUBLE_EQ(speed.processing_s(12), 0.125);   // half way from 0.1 to 0.15
  EXPECT_DOUBLE_EQ(speed.processing_s(20), 0.1875);  // 0.15 + 4/16 x 0.15
  EXPECT_DOUBLE_EQ(speed.processing_s(64), 0.6);     // 0.3 x 64 / 32
  EXPECT_DOUBLE_EQ(speed.processing_s(1), 0.1);      // fixed costs: not below the smallest
}

TEST(Jsa, OneMeasurementIsEnough) {
  const JsaSpeed speed({{.local = 10, .seconds = 0.5}}, 0, kNetwork);
  EXPECT_DOUBLE_EQ(speed.processing_s(10), 0.5);
  EXPECT_DOUBLE_EQ(speed.processing_s(20), 1.0);
  EXPECT_DOUBLE_EQ(speed.processing_s(5), 0.5);
}

TEST(Jsa, AnIterationIsProcessingPlusCommunication) {
  const JsaSpeed speed = analyzer();
  const StepTime alone = speed.step_time(Placement(kType, {1}), 16);
  EXPECT_DOUBLE_EQ(alone.step_s, 0.15);
  EXPECT_EQ(alone.sync_s, 0);
  EXPECT_EQ(alone.confidence, Confidence::kMeasured);
  // 4 devices of one node: 6 x 1e-4 + 1.5 x 2e8 / 10e9 = 0.0006 + 0.03
  const StepTime within = speed.step_time(Placement(kType, {4}), 16);
  EXPECT_DOUBLE_EQ(within.sync_s, 0.0306);
  EXPECT_DOUBLE_EQ(within.step_s, 0.1806);
  EXPECT_EQ(within.confidence, Confidence::kExtrapolated);
  // Over two nodes: 6 x 1e-3 + 1.5 x 2e8 / 1e9 = 0.006 + 0.3
  const StepTime across = speed.step_time(Placement(kType, {2, 2}), 16);
  EXPECT_DOUBLE_EQ(across.sync_s, 0.306);
  EXPECT_DOUBLE_EQ(across.step_s, 0.456);
}

TEST(Jsa, OnlyAMeasuredBatchCountsAsMeasured) {
  const JsaSpeed speed = analyzer();
  const auto confidence = [&](std::int64_t local) {
    return speed.step_time(Placement(kType, {1}), local).confidence;
  };
  EXPECT_EQ(confidence(32), Confidence::kMeasured);
  EXPECT_EQ(confidence(12), Confidence::kInterpolated);
  EXPECT_EQ(confidence(64), Confidence::kExtrapolated);
  EXPECT_EQ(confidence(1), Confidence::kExtrapolated);
}

TEST(JsaDeathTest, NeedsAMeasurement) {
  EXPECT_DEATH(JsaSpeed({}, 1, kNetwork), "one-device measurement");
}

TEST(ScalingLaw, SpeedIsAPowerOfTheDevices) {
  EXPECT_EQ(ScalingLaw{.exponent = 1}.speed(6), 6);
  EXPECT_DOUBLE_EQ(ScalingLaw{.exponent = 0.5}.speed(4), 2);
  EXPECT_EQ(ScalingLaw{}.speed(1), 1);
  EXPECT_NEAR(ScalingLaw{}.speed(2), 1.8661, 1e-4);  // 2^0.9
}

TEST(RequestedDuration, OneStepIsOneSecondAtTheRequestedSize) {
  const RequestedDurationSpeed speed(4, ScalingLaw{.exponent = 0.5});
  const StepTime requested = speed.step_time(Placement(kType, {4}), 0);
  EXPECT_DOUBLE_EQ(requested.step_s, 1);
  // Speed 2 on 4 devices: half of the time is in excess of perfect scaling.
  EXPECT_DOUBLE_EQ(requested.sync_s, 0.5);
  EXPECT_EQ(requested.confidence, Confidence::kMeasured);
  // sqrt(4) / sqrt(1) = 2 s on one device, without synchronisation.
  const StepTime alone = speed.step_time(Placement(kType, {1}), 0);
  EXPECT_DOUBLE_EQ(alone.step_s, 2);
  EXPECT_DOUBLE_EQ(alone.sync_s, 0);
  EXPECT_EQ(alone.confidence, Confidence::kExtrapolated);
  // sqrt(4) / sqrt(16) = 0.5 s, a quarter of it useful: 0.125 s = 2 s / 16.
  const StepTime many = speed.step_time(Placement(kType, {8, 8}), 0);
  EXPECT_DOUBLE_EQ(many.step_s, 0.5);
  EXPECT_DOUBLE_EQ(many.step_s - many.sync_s, 2.0 / 16);
}

}  // namespace
}  // namespace rubato
