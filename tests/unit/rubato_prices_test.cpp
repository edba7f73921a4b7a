#include "sched/policies/rubato_prices.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rubato {
namespace {

// Sizes of 1, 2, 4, ... devices with speed devices^exponent.
PlannedJob planned(Seconds length_s, double exponent, int most = 64) {
  PlannedJob::Phase phase{.sizes = {}, .length_s = length_s};
  for (int k = 1; k <= most; k *= 2) phase.sizes.push_back({k, std::pow(k, exponent)});
  return {.phases = {phase}};
}

// Prices settle over several decisions.
std::vector<double> settled(const std::vector<PlannedJob>& jobs, int capacity) {
  PricePath path;
  std::vector<double> values;
  for (int i = 0; i < 50; ++i) values = path.values(jobs, capacity);
  return values;
}

TEST(RubatoPrices, MajorantKeepsTheSizesThatCanBeBest) {
  std::vector<PlannedJob::Size> sizes{{1, 1}, {2, 1.2}, {4, 3}, {8, 2.5}, {16, 6}, {32, 6}};
  keep_majorant(sizes);
  std::vector<int> devices;
  devices.reserve(sizes.size());
  for (const PlannedJob::Size& size : sizes) devices.push_back(size.devices);
  EXPECT_EQ(devices, (std::vector<int>{1, 4, 16}));

  std::vector<PlannedJob::Size> useless{{2, 0}, {4, 0}};
  keep_majorant(useless);
  EXPECT_TRUE(useless.empty());
}

TEST(RubatoPrices, WorkOfShorterJobsIsWorthMore) {
  const std::vector<PlannedJob> jobs{planned(100'000, 0.7), planned(1'000, 0.7),
                                     planned(10'000, 0.7)};
  const std::vector<double> values = settled(jobs, 8);
  EXPECT_GT(values[1], values[2]);
  EXPECT_GT(values[2], values[0]);
}

TEST(RubatoPrices, WorkOfJobsThatCannotCatchUpIsWorthMore) {
  const std::vector<PlannedJob> jobs{planned(10'000, 0.9), planned(10'000, 0.2)};
  const std::vector<double> values = settled(jobs, 16);
  EXPECT_GT(values[1], values[0]);
}

TEST(RubatoPrices, WithDevicesForAllAJobIsWorthItsTimeAtItsBestSize) {
  const std::vector<double> values = settled({planned(1'000, 0.5, 4)}, 1'000);
  // Devices cost next to nothing, so a second of work costs 1 / speed seconds.
  EXPECT_NEAR(values[0], 0.5, 0.01);
}

// A job with two phases of 1,000 s each. Forty other jobs keep devices expensive.
double first_phase(double exponent_now, double exponent_later) {
  const PlannedJob now = planned(1'000, exponent_now);
  const PlannedJob later = planned(1'000, exponent_later);
  std::vector<PlannedJob> jobs(40, planned(20'000, 0.8));
  jobs.push_back({.phases = {now.phases[0], later.phases[0]}});
  return settled(jobs, 64).back();
}

TEST(RubatoPrices, TwoPhasesThatScaleAlikeAreOne) {
  std::vector<PlannedJob> jobs(40, planned(20'000, 0.8));
  jobs.push_back(planned(2'000, 0.7));
  EXPECT_NEAR(first_phase(0.7, 0.7), settled(jobs, 64).back(), 1e-9);
}

TEST(RubatoPrices, WorkNowIsWorthMoreWhereItDoesNotScaleButWhatFollowsDoes) {
  EXPECT_GT(first_phase(0.1, 0.9), first_phase(0.9, 0.9));
}

TEST(RubatoPrices, ManyJobsTakeOneStepAndDevicesBecomeDearer) {
  const std::vector<PlannedJob> jobs(1'000, planned(5'000, 0.8));
  PricePath path;
  const double first = path.values(jobs, 10).front();
  EXPECT_GT(path.values(jobs, 10).front(), first);
  EXPECT_TRUE(path.values({}, 10).empty());
}

}  // namespace
}  // namespace rubato
