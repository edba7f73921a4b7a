// Ends of jobs, as `queue` shows them.
#include "control/eta.h"

#include <gtest/gtest.h>

namespace rubato::control {
namespace {

using Jobs = std::vector<EtaJob>;

TEST(Eta, ARunningJobEndsWhenItsWorkIsDone) {
  const Jobs running{{.job = 1, .devices = 2, .left_s = 30}};
  const auto etas = estimate_ends(running, {}, 0);
  EXPECT_DOUBLE_EQ(etas.at(1).finish_s, 30);
  EXPECT_EQ(etas.at(1).devices, 2);
}

TEST(Eta, IsNeverNowForAJobThatHasNotEnded) {
  const Jobs running{{.job = 1, .devices = 1, .left_s = 0}};
  EXPECT_GT(estimate_ends(running, {}, 0).at(1).finish_s, 0);
}

TEST(Eta, AWaitingJobStartsWhenEnoughDevicesAreFree) {
  const Jobs running{{.job = 1, .devices = 1, .left_s = 10},
                     {.job = 2, .devices = 2, .left_s = 40}};
  const Jobs waiting{{.job = 3, .needs = 2, .left_s = 100}, {.job = 4, .needs = 1, .left_s = 5}};
  const auto etas = estimate_ends(running, waiting, 0);
  EXPECT_DOUBLE_EQ(etas.at(3).start_s, 40);  // the one device of job 1 is not enough
  EXPECT_DOUBLE_EQ(etas.at(3).finish_s, 140);
  EXPECT_EQ(etas.at(3).devices, 2);
  EXPECT_DOUBLE_EQ(etas.at(4).start_s, 40);  // in order; the third device is left
  EXPECT_DOUBLE_EQ(etas.at(4).finish_s, 45);
}

TEST(Eta, FreeDevicesAreUsedAtOnce) {
  const Jobs waiting{{.job = 1, .needs = 1, .left_s = 7}};
  EXPECT_DOUBLE_EQ(estimate_ends({}, waiting, 1).at(1).start_s, 0);
}

TEST(Eta, NobodyKnowsWhatComesAfterAJobOfUnknownLength) {
  const Jobs running{{.job = 1, .devices = 1}};
  const Jobs waiting{{.job = 2, .needs = 1, .left_s = 5}, {.job = 3, .needs = 1, .left_s = 5}};
  EXPECT_TRUE(estimate_ends(running, waiting, 0).empty());
  // With a device beside it they run there, one after the other.
  const auto etas = estimate_ends(running, waiting, 1);
  EXPECT_DOUBLE_EQ(etas.at(3).finish_s, 10);
}

}  // namespace
}  // namespace rubato::control
