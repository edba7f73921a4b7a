#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rubato {
namespace {

// These values were computed by an independent implementation of splitmix64 and xoshiro256++. If
// they change, every recorded result changes.
TEST(Random, TheSequenceOfASeedNeverChanges) {
  Random zero(0);
  EXPECT_EQ(zero.next(), 0x53175d61490b23dfULL);
  EXPECT_EQ(zero.next(), 0x61da6f3dc380d507ULL);
  EXPECT_EQ(zero.next(), 0x5c0fdf91ec9a7bfcULL);
  EXPECT_EQ(zero.next(), 0x02eebf8c3bbe5e1aULL);
  Random answer(42);
  EXPECT_EQ(answer.next(), 0xd0764d4f4476689fULL);
  EXPECT_EQ(answer.next(), 0x519e4174576f3791ULL);
  EXPECT_EQ(answer.next(), 0xfbe07cfb0c24ed8cULL);
  EXPECT_EQ(answer.next(), 0xb37d9f600cd835b8ULL);
}

TEST(Random, TheDerivedValuesOfASeedNeverChange) {
  Random uniform(7);
  EXPECT_EQ(uniform.uniform(), 0.05536043647833311);
  EXPECT_EQ(uniform.uniform(), 0.17211585444811772);
  EXPECT_EQ(uniform.uniform(), 0.7175761283586594);
  Random digits(7);
  for (const std::uint32_t expected : {0U, 1U, 7U, 4U, 9U, 4U}) {
    EXPECT_EQ(digits.below(10), expected);
  }
  Random parent(42);
  EXPECT_EQ(parent.fork().next(), 0x4fbbc8a5d7ee027bULL);
  EXPECT_EQ(parent.next(), 0x519e4174576f3791ULL);  // a fork costs its parent one value
  // -2 ln(1 - 0.0553604...) = 0.113904..., and floor(ln(1 - u) / ln(1 - 0.25)) of the three values.
  Random exponential(7);
  EXPECT_NEAR(exponential.exponential(2.0), -2.0 * std::log(1 - 0.05536043647833311), 1e-15);
  Random failures(7);
  EXPECT_EQ(failures.geometric(0.25), 0U);  // 0.0570 / 0.2877 = 0.198
  EXPECT_EQ(failures.geometric(0.25), 0U);  // 0.1889 / 0.2877 = 0.657
  EXPECT_EQ(failures.geometric(0.25), 4U);  // 1.2643 / 0.2877 = 4.395
}

TEST(Random, BoundsAreKeptAndReached) {
  Random random(1);
  std::array<bool, 5> below{};
  std::array<bool, 5> between{};
  for (int i = 0; i < 1000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    const std::uint32_t b = random.below(5);
    ASSERT_LT(b, 5U);
    below[b] = true;
    const int c = random.between(-2, 2);
    ASSERT_GE(c, -2);
    ASSERT_LE(c, 2);
    between[static_cast<std::size_t>(c + 2)] = true;
    ASSERT_EQ(random.below(1), 0U);
    ASSERT_EQ(random.between(9, 9), 9);
    ASSERT_EQ(random.geometric(1.0), 0U);
    ASSERT_GE(random.exponential(3), 0);
    ASSERT_TRUE(std::isfinite(random.normal()));
    ASSERT_FALSE(random.chance(0));
    ASSERT_TRUE(random.chance(1));
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(below[i] && between[i]) << i;
}

TEST(Random, GeometricWithATinyProbabilityStaysInRange) {
  Random random(2);
  int largest = 0;
  for (int i = 0; i < 1000; ++i) {
    if (random.geometric(1e-300) == std::numeric_limits<std::uint32_t>::max()) ++largest;
  }
  EXPECT_EQ(largest, 1000);
}

TEST(Random, ValuesAreRoughlySpreadAsTheyShould) {
  constexpr int kDraws = 100'000;
  Random random(3);
  std::array<int, 10> buckets{};
  double uniform = 0, exponential = 0, normal = 0, square = 0, geometric = 0;
  int hits = 0;
  for (int i = 0; i < kDraws; ++i) {
    ++buckets[random.below(10)];
    uniform += random.uniform();
    exponential += random.exponential(5);
    const double z = random.normal();
    normal += z;
    square += z * z;
    geometric += random.geometric(0.2);
    hits += random.chance(0.3) ? 1 : 0;
  }
  // At least six standard errors wide.
  for (const int count : buckets) EXPECT_NEAR(count, kDraws / 10, 600);
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.01);
  EXPECT_NEAR(exponential / kDraws, 5, 0.1);
  EXPECT_NEAR(normal / kDraws, 0, 0.02);
  EXPECT_NEAR(square / kDraws, 1, 0.03);
  EXPECT_NEAR(geometric / kDraws, 4, 0.1);  // (1 - p) / p
  EXPECT_NEAR(hits, 0.3 * kDraws, 1000);
}

TEST(Random, SeedsGiveDifferentSequences) {
  Random a(1), b(2);
  int same = 0;
  for (int i = 0; i < 100; ++i) same += a.next() == b.next() ? 1 : 0;
  EXPECT_EQ(same, 0);
}

}  // namespace
}  // namespace rubato
