// Somebody sets the computer's clock.
#include "control/steady_time.h"

#include <gtest/gtest.h>

#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

class SteadyTimeTest : public ::testing::Test {
 protected:
  void pass(double seconds) {
    elapsed_ += seconds;
    wall_ += seconds;
  }
  TimeSource source() {
    return {
        .wall = [this] { return wall_; }, .elapsed = [this] { return elapsed_; }, .boot = boot_};
  }

  double wall_ = 1'000'000;
  double elapsed_ = 50;
  std::string boot_ = "first";
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

TEST_F(SteadyTimeTest, NothingButRealTimeMovesTheSteadyOne) {
  const TemporaryFolder folder;
  const std::string file = folder / "clock";
  double last = 0;
  {
    const SteadyTime time(source(), 0, file);
    const double begin = time.steady();
    wall_ += 7200;
    pass(100);
    EXPECT_DOUBLE_EQ(time.steady(), begin + 100);
    EXPECT_GT(time.now(), 1'000'100) << "it makes up for the step";
    last = time.steady();
  }
  // The clock is set while no program runs.
  wall_ -= 86'400;
  pass(30);
  {
    const SteadyTime time(source(), 1'000'100, file);
    EXPECT_DOUBLE_EQ(time.steady(), last + 30);
    pass(10);
    last = time.steady();
  }
  // The computer restarts.
  boot_ = "second";
  elapsed_ = 3;
  wall_ = 2'000'000;
  const SteadyTime time(source(), 1'000'200, file);
  EXPECT_GT(time.steady(), last);
  const double begin = time.steady();
  pass(5);
  EXPECT_DOUBLE_EQ(time.steady(), begin + 5);
}

TEST_F(SteadyTimeTest, ADamagedFileIsReplaced) {
  const TemporaryFolder folder;
  const std::string file = folder / "clock";
  for (const char* text : {"", "{", "[1]", R"({"steady": "x", "boot": 5})"}) {
    ASSERT_TRUE(write_file(file, text).ok());
    const double begin = SteadyTime(source(), 0, file).steady();
    EXPECT_DOUBLE_EQ(begin, wall_) << text;
    pass(10);
    EXPECT_DOUBLE_EQ(SteadyTime(source(), 0, file).steady(), begin + 10) << text;
  }
}

}  // namespace
}  // namespace rubato::control
