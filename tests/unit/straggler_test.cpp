#include "elastic/worker/straggler.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace rubato::elastic {
namespace {

using Sample = StragglerWatch::Sample;

std::vector<Sample> seconds(std::vector<double> all) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < all.size(); ++i) samples.push_back({static_cast<int>(i), all[i]});
  return samples;
}

StragglerWatch::Verdict observe(StragglerWatch& watch, const std::vector<Sample>& samples,
                                double step_s = 1) {
  return watch.observe(samples, step_s);
}

// On a busy machine, ten steps of a few milliseconds are one moment in which a worker did not run.
TEST(Straggler, IsNotFlaggedForAMoment) {
  StragglerWatch watch;
  constexpr double kStep = 0.125;
  constexpr int kLong = static_cast<int>(StragglerWatch::kSeconds / kStep);
  for (int round = 0; round < 3; ++round) {
    for (int step = 1; step < kLong; ++step) {
      EXPECT_TRUE(observe(watch, seconds({1, 5}), kStep).empty()) << step;
    }
    EXPECT_TRUE(observe(watch, seconds({1, 1}), kStep).empty());
  }
  for (int step = 1; step < kLong; ++step) observe(watch, seconds({1, 5}), kStep);
  EXPECT_EQ(observe(watch, seconds({1, 5}), kStep).flagged.size(), 1u);
}

TEST(Straggler, IsFlaggedAtTheTenthSlowStepInARow) {
  StragglerWatch watch;
  for (int step = 1; step < StragglerWatch::kSteps; ++step) {
    EXPECT_TRUE(observe(watch, seconds({1, 1, 1.25})).empty()) << step;
  }
  const auto verdict = observe(watch, seconds({1, 1, 1.25}));
  ASSERT_EQ(verdict.flagged.size(), 1u);
  EXPECT_EQ(verdict.flagged[0].worker, 2);
  EXPECT_DOUBLE_EQ(verdict.flagged[0].slowdown, 1.25);
  EXPECT_TRUE(watch.flagged(2));
  EXPECT_DOUBLE_EQ(watch.seconds(2), 1.25);
  EXPECT_DOUBLE_EQ(watch.seconds(0), 1);
  EXPECT_TRUE(observe(watch, seconds({1, 1, 1.25})).empty());  // once
}

TEST(Straggler, OneGoodStepStartsTheCountAgain) {
  StragglerWatch watch;
  for (int step = 0; step < 100; ++step) {
    EXPECT_TRUE(observe(watch, seconds({1, 1, step % 10 == 9 ? 1.0 : 5.0})).empty());
  }
}

TEST(Straggler, JustBelowTheLimitIsNotSlow) {
  StragglerWatch watch;
  for (int step = 0; step < 100; ++step) {
    EXPECT_TRUE(observe(watch, seconds({1, 1, 1.19})).empty());
  }
}

TEST(Straggler, OfTwoTheSlowOneDoesNotRaiseItsLimit) {
  StragglerWatch watch;
  std::size_t flags = 0;
  for (int step = 0; step < 10; ++step) flags += observe(watch, seconds({1, 1.3})).flagged.size();
  EXPECT_EQ(flags, 1u);
  EXPECT_TRUE(watch.flagged(1));
}

TEST(Straggler, IsClearedWhenClearlyWellAndEachTimeLater) {
  StragglerWatch watch;
  int expected = StragglerWatch::kSteps;
  for (int round = 0; round < 5; ++round) {
    for (int step = 0; step < StragglerWatch::kSteps; ++step) observe(watch, seconds({1, 1, 3}));
    ASSERT_TRUE(watch.flagged(2));
    for (int step = 0; step < 1000; ++step) observe(watch, seconds({1, 1, 1.15}));
    ASSERT_TRUE(watch.flagged(2));  // neither slow nor good
    int steps = 1;
    while (observe(watch, seconds({1, 1, 1})).cleared.empty()) ++steps;
    EXPECT_EQ(steps, expected);
    EXPECT_FALSE(watch.flagged(2));
    expected *= 2;
  }
}

TEST(Straggler, NoiseFlagsNobody) {
  constexpr std::uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  StragglerWatch watch;
  for (int step = 0; step < 20000; ++step) {
    // A busy machine: every third step takes up to five times as long.
    std::vector<double> all(4);
    for (double& one : all) {
      one = random.chance(0.3) ? 1 + 4 * random.uniform() : 1 + 0.1 * random.uniform();
    }
    EXPECT_TRUE(observe(watch, seconds(all)).empty()) << step;
  }
}

TEST(Straggler, WhoLeftIsForgotten) {
  StragglerWatch watch;
  for (int step = 0; step < 10; ++step) observe(watch, seconds({1, 1, 3}));
  watch.keep_only(std::vector{0, 1});
  EXPECT_FALSE(watch.flagged(2));
  EXPECT_DOUBLE_EQ(watch.seconds(2), watch.seconds(0));
}

TEST(Straggler, OneWorkerAloneIsNeverSlow) {
  StragglerWatch watch;
  for (int step = 0; step < 50; ++step) EXPECT_TRUE(observe(watch, seconds({1.0 + step})).empty());
  EXPECT_DOUBLE_EQ(watch.seconds(0), 1);
}

}  // namespace
}  // namespace rubato::elastic
