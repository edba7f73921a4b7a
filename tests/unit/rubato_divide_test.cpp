#include "sched/policies/rubato_divide.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace rubato {
namespace {

using Prices = std::array<double, kMaxDeviceTypes>;

double value_of(const std::vector<TypedChoices>& jobs, const std::vector<TypedShare>& shares) {
  double sum = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (!shares[j].type.valid()) continue;
    sum += jobs[j].of[shares[j].type.index()][static_cast<std::size_t>(shares[j].choice)].value;
  }
  return sum;
}

DeviceCounts use_of(const std::vector<TypedChoices>& jobs, const std::vector<TypedShare>& shares) {
  DeviceCounts used;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (!shares[j].type.valid()) continue;
    used[shares[j].type] +=
        jobs[j].of[shares[j].type.index()][static_cast<std::size_t>(shares[j].choice)].size;
  }
  return used;
}

// The best division, by brute force.
double brute_force(const std::vector<TypedChoices>& jobs, std::size_t from, DeviceCounts left,
                   std::size_t types) {
  if (from == jobs.size()) return 0;
  double best = brute_force(jobs, from + 1, left, types);
  for (std::size_t t = 0; t < types; ++t) {
    for (const Choice& c : jobs[from].of[t]) {
      if (c.size > left.of[t]) continue;
      DeviceCounts rest = left;
      rest.of[t] -= c.size;
      best = std::max(best, c.value + brute_force(jobs, from + 1, rest, types));
    }
  }
  return best;
}

std::vector<TypedChoices> random_jobs(std::size_t count, std::size_t types, Random& random) {
  std::vector<TypedChoices> jobs(count);
  for (TypedChoices& job : jobs) {
    const double weight = 1 + 5 * random.uniform();
    for (std::size_t t = 0; t < types; ++t) {
      const double speed = 0.5 + 2 * random.uniform();
      for (int size = 1; size <= 4; size *= 2) {
        job.of[t].push_back({size, weight * std::pow(speed * size, 0.3 + 0.6 * random.uniform())});
      }
    }
  }
  return jobs;
}

TEST(RubatoDivide, IsExactOnOneType) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const auto jobs = random_jobs(5, 1, random);
    DeviceCounts usable;
    usable.of[0] = 1 + static_cast<int>(random.below(12));
    Prices price{};
    const auto shares = divide_types(jobs, usable, 1, DivisionMethod::kPrices, price);
    EXPECT_NEAR(value_of(jobs, shares), brute_force(jobs, 0, usable, 1), 1e-9);
  }
}

TEST(RubatoDivide, FitsAndComesCloseToTheBestOnThreeTypes) {
  Random random(2);
  double found = 0;
  double best = 0;
  for (int round = 0; round < 100; ++round) {
    const auto jobs = random_jobs(5, 3, random);
    DeviceCounts usable;
    for (std::size_t t = 0; t < 3; ++t) usable.of[t] = static_cast<int>(random.below(5));
    for (const DivisionMethod method : {DivisionMethod::kPrices, DivisionMethod::kImproveOnly,
                                        DivisionMethod::kFastest, DivisionMethod::kGreedy}) {
      Prices price{};
      const auto shares = divide_types(jobs, usable, 3, method, price);
      const DeviceCounts used = use_of(jobs, shares);
      for (std::size_t t = 0; t < 3; ++t) EXPECT_LE(used.of[t], usable.of[t]);
      const double value = value_of(jobs, shares);
      const double limit = brute_force(jobs, 0, usable, 3);
      EXPECT_LE(value, limit + 1e-9);
      if (method != DivisionMethod::kPrices) continue;
      EXPECT_GE(value, 0.85 * limit);
      found += value;
      best += limit;
    }
  }
  EXPECT_GE(found, 0.98 * best);
}

TEST(RubatoDivide, LeavesJobsWhereTheyAreWhenNothingElseIsWorthMore) {
  // Two equal jobs and two equal types: both assignments have the same value.
  std::vector<TypedChoices> jobs(2);
  for (TypedChoices& job : jobs) job.of[0] = job.of[1] = {{1, 1.0}};
  jobs[0].now_type = DeviceTypeId(1);
  jobs[0].now = 0;
  jobs[1].now_type = DeviceTypeId(0);
  jobs[1].now = 0;
  DeviceCounts usable;
  usable.of[0] = usable.of[1] = 1;
  Prices price{};
  const auto shares = divide_types(jobs, usable, 2, DivisionMethod::kPrices, price);
  EXPECT_EQ(shares[0].type, DeviceTypeId(1));
  EXPECT_EQ(shares[1].type, DeviceTypeId(0));
}

}  // namespace
}  // namespace rubato
