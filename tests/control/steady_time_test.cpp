// Somebody sets the computer's clock.
#include "control/steady_time.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

class SteadyTimeTest : public ::testing::Test {
 protected:
  void pass(double seconds) {
    elapsed_ += seconds;
    wall_ += seconds;
  }
  TimeSource source() {
    return {.wall = [this] { return wall_; }, .elapsed = [this] { return elapsed_; }};
  }

  double wall_ = 1'000'000;
  double elapsed_ = 50;
};

TEST_F(SteadyTimeTest, FollowsTheWallClock) {
  const SteadyTime time(source(), 0);
  EXPECT_DOUBLE_EQ(time.now(), 1'000'000);
  pass(10);
  EXPECT_DOUBLE_EQ(time.now(), 1'000'010);
}

TEST_F(SteadyTimeTest, AStepIsMadeUpGraduallyAndNeverGoesBack) {
  for (const double step : {-3600.0, 3600.0}) {
    SCOPED_TRACE(step);
    wall_ = 1'000'000;
    const SteadyTime time(source(), 0);
    wall_ += step;
    EXPECT_DOUBLE_EQ(time.now(), 1'000'000) << "nothing has passed";
    double last = time.now();
    pass(100);
    EXPECT_NEAR(time.now() - last, 100, 10 + 1e-6) << "a duration across the step";
    for (int i = 0; i < 3600; ++i) {
      last = time.now();
      pass(20);
      ASSERT_GT(time.now(), last);
      ASSERT_NEAR(time.now() - last, 20, 2 + 1e-6);
    }
    EXPECT_NEAR(time.now(), wall_, 1e-3) << "both agree again";
  }
}

TEST_F(SteadyTimeTest, BeginsAfterTheLastEvent) {
  const SteadyTime time(source(), 1'000'500);
  EXPECT_DOUBLE_EQ(time.now(), 1'000'500);
  pass(10);
  EXPECT_GT(time.now(), 1'000'500);
}

}  // namespace
}  // namespace rubato::control
