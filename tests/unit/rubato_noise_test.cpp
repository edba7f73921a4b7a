#include "sched/policies/rubato_noise.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rubato {
namespace {

TEST(RubatoNoise, EfficiencyIsThatOfTheModelWhereNoiseDoesNotDependOnTheBatch) {
  const GradientNoise noise{.squared_norm = 2, .variance = 30};
  const NoiseCurve curve = NoiseCurve::flat(noise_ratio(noise));
  for (const double scale : {1.0, 3.0, 64.0}) {
    EXPECT_NEAR(curve.efficiency(scale, std::log2(scale)),
                statistical_efficiency(noise, 100 * scale, 100), 1e-12);
  }
}

TEST(RubatoNoise, NoNoiseAndNothingButNoise) {
  EXPECT_EQ(noise_ratio({}), 0);
  EXPECT_EQ(noise_ratio({.squared_norm = 0, .variance = 1}), 1e9);
  EXPECT_DOUBLE_EQ(NoiseCurve::flat(0).efficiency(4, 2), 0.25);
}

TEST(RubatoNoise, StagesCoverATrainingAndTheFirstAreShort) {
  EXPECT_EQ(NoiseStages::stage_at(-1), 0U);
  EXPECT_EQ(NoiseStages::stage_at(1), NoiseStages::kStages - 1);
  EXPECT_EQ(NoiseStages::stage_at(7), NoiseStages::kStages - 1);
  EXPECT_LT(NoiseStages::begin(1), 0.01);
  for (std::size_t s = 0; s < NoiseStages::kStages; ++s) {
    EXPECT_EQ(NoiseStages::stage_at(NoiseStages::begin(s) + 1e-9), s);
  }
}

TEST(RubatoNoise, BatchesThatNobodyUsedHaveTheNoiseOfTheNearest) {
  NoiseStages stages;
  EXPECT_FALSE(stages.known(NoiseStages::stage_at(0.5)));
  stages.report(0.5, {.ratio = 10, .doublings = 1});
  stages.report(0.5, {.ratio = 90, .doublings = 5});
  const NoiseCurve curve = stages.curve(NoiseStages::stage_at(0.5));
  EXPECT_EQ(curve.ratio[0], 10);
  EXPECT_EQ(curve.ratio[2], 10);
  EXPECT_EQ(curve.ratio[4], 90);
  EXPECT_EQ(curve.ratio[9], 90);
  EXPECT_DOUBLE_EQ(curve.at(5.5), 90);
  EXPECT_DOUBLE_EQ(curve.at(3.5), (curve.ratio[3] + curve.ratio[4]) / 2);
}

TEST(RubatoNoise, AJobThatIsQuiteDifferentKeepsItsOwnLevel) {
  NoiseStages stages;
  stages.report(0, {.ratio = 20, .doublings = 0});
  stages.report(0, {.ratio = 40, .doublings = 4});
  // The job is similar, so measurements of other jobs at larger batches count.
  EXPECT_EQ(stages.curve(0, {.ratio = 15, .doublings = 0}).ratio[4], 40);
  // The job differs: it may still be in an epoch with little noise, or have other data.
  EXPECT_DOUBLE_EQ(stages.curve(0, {.ratio = 0.5, .doublings = 0}).ratio[4], 1);
}

}  // namespace
}  // namespace rubato
