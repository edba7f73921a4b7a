#include "sched/tenant_shares.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace rubato {
namespace {

using Shares = std::vector<int>;

TEST(TenantShares, DivideByWeight) {
  // 12 devices by 1 : 2 : 3
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 99}, {2, 99}, {3, 99}}, 12),
            (Shares{2, 4, 6}));
}

TEST(TenantShares, WhatOneLeavesGoesToTheOthersByWeight) {
  // Of its 4 devices, the first wants 1. The other two share 11, 5.5 each, and the first of them
  // gets the odd one.
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 1}, {1, 99}, {1, 99}}, 12),
            (Shares{1, 6, 5}));
  // All tenants can have everything they want.
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 1}, {9, 2}, {1, 3}}, 12), (Shares{1, 2, 3}));
}

TEST(TenantShares, TheOddDeviceStaysWhereItIs) {
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 9, 2}, {1, 9, 3}}, 5), (Shares{2, 3}));
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 9, 3}, {1, 9, 2}}, 5), (Shares{3, 2}));
}

TEST(TenantShares, LargestRemainder) {
  // 10 devices by 5 : 3 : 1 are 5.56, 3.33 and 1.11.
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{5, 99}, {3, 99}, {1, 99}}, 10),
            (Shares{6, 3, 1}));
}

TEST(TenantShares, Nothing) {
  EXPECT_EQ(whole_shares({}, 5), Shares{});
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 0}, {1, 0}}, 5), (Shares{0, 0}));
  EXPECT_EQ(whole_shares(std::vector<TenantClaim>{{1, 4}, {1, 4}}, 0), (Shares{0, 0}));
}

TEST(TenantShares, AreMaxMinFairForRandomClaims) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<TenantClaim> claims;
    const int tenants = random.between(1, 8);
    for (int i = 0; i < tenants; ++i) {
      claims.push_back({0.1 + 10 * random.uniform(), random.between(0, 30), random.between(0, 9)});
    }
    const int capacity = random.between(0, 64);
    const auto fair = fair_shares(claims, capacity);
    const auto whole = whole_shares(claims, capacity);
    int wanted = 0;
    for (const TenantClaim& claim : claims) wanted += claim.wanted;
    ASSERT_NEAR(std::accumulate(fair.begin(), fair.end(), 0.0), std::min(wanted, capacity), 1e-6);
    ASSERT_EQ(std::accumulate(whole.begin(), whole.end(), 0), std::min(wanted, capacity));
    for (std::size_t i = 0; i < claims.size(); ++i) {
      ASSERT_LE(whole[i], claims[i].wanted);
      ASSERT_LT(std::abs(whole[i] - fair[i]), 1 + 1e-5);
      if (fair[i] >= claims[i].wanted - 1e-9) continue;
      // A tenant that wants more than it has must have the largest share per weight.
      for (std::size_t k = 0; k < claims.size(); ++k) {
        ASSERT_LE(fair[k] / claims[k].weight, fair[i] / claims[i].weight + 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace rubato
