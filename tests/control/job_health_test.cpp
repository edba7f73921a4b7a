// When a job counts as stalled.
#include "control/job_health.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

constexpr double kStarted = 1000;

// A job that has done its first steps, the last of them at the returned time.
double run_some_steps(ProgressWatch& watch, Seconds step_s) {
  watch.started(kStarted);
  double now = kStarted;
  for (int step = 0; step < 5; ++step, now += step_s) watch.report(step, 1, step_s, now);
  return now - step_s;
}

TEST(ProgressWatch, NothingIsKnownOfAJobThatWasNeverSeen) {
  EXPECT_FALSE(ProgressWatch().stalled_since(1e9));
}

TEST(ProgressWatch, FastStepsMayPauseForTenSeconds) {
  ProgressWatch watch;
  const double last = run_some_steps(watch, 0.02);
  EXPECT_FALSE(watch.stalled_since(last + 9.9));
  EXPECT_EQ(watch.stalled_since(last + 10.1), last);
}

TEST(ProgressWatch, SlowStepsMayTakeTenTimesAsLongAsUsual) {
  ProgressWatch watch;
  const double last = run_some_steps(watch, 30);
  EXPECT_FALSE(watch.stalled_since(last + 299));
  EXPECT_EQ(watch.stalled_since(last + 301), last);
}

TEST(ProgressWatch, ProgressEndsTheStall) {
  ProgressWatch watch;
  const double last = run_some_steps(watch, 0.02);
  ASSERT_TRUE(watch.stalled_since(last + 50));
  EXPECT_TRUE(watch.report(6, 1, 0.02, last + 50));
  EXPECT_FALSE(watch.stalled_since(last + 50.1));
  // An epoch's end, say: it is not called stalled every time.
  EXPECT_FALSE(watch.stalled_since(last + 50 + 99));
  EXPECT_TRUE(watch.stalled_since(last + 50 + 101));
}

TEST(ProgressWatch, TheSameStepAgainIsNoProgress) {
  ProgressWatch watch;
  const double last = run_some_steps(watch, 0.02);
  EXPECT_FALSE(watch.report(4, 1, 0.02, last + 9));
  EXPECT_EQ(watch.stalled_since(last + 11), last);
}

TEST(ProgressWatch, OtherWorkersGiveItTime) {
  ProgressWatch watch;
  const double last = run_some_steps(watch, 0.02);
  EXPECT_FALSE(watch.report(4, 2, 0, last + 9));
  EXPECT_FALSE(watch.stalled_since(last + 11));
  EXPECT_EQ(watch.stalled_since(last + 20), last + 9);
}

TEST(ProgressWatch, AStartMayTakeMinutesAgain) {
  ProgressWatch watch;
  double last = run_some_steps(watch, 0.02);
  watch.started(last + 1);
  watch.report(2, 1, 0, last + 3);  // from its checkpoint: not a step yet
  EXPECT_FALSE(watch.stalled_since(last + 200));
  EXPECT_EQ(watch.stalled_since(last + 304), last + 3);
  EXPECT_TRUE(watch.report(3, 1, 0.02, last + 400));
  EXPECT_FALSE(watch.stalled_since(last + 401));
}

}  // namespace
}  // namespace rubato::control
