#include "elastic/data/batch_rule.h"

#include <gtest/gtest.h>

namespace rubato::elastic {
namespace {

TEST(BatchRange, IsTwoNumbersWithDots) {
  const Result<BatchRange> range = parse_batch_range("64..512");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(*range, (BatchRange{64, 512}));
  EXPECT_EQ(to_string(*range), "64..512");
  EXPECT_TRUE(range->contains(64) && range->contains(512));
  EXPECT_FALSE(range->contains(63) || range->contains(513));
  EXPECT_TRUE(parse_batch_range("8..8").ok());
}

TEST(BatchRange, AnythingElseIsRefusedWithTheForm) {
  for (const char* text :
       {"", "64", "64-512", "..", "64..", "..512", "a..b", "64...512", "0..8", "-4..8",
        "1..99999999999999999999", "1..2147483648", " 1..2", "1..2 ", "1..2..3", "0x10..0x20"}) {
    const Result<BatchRange> range = parse_batch_range(text);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_NE(range.error().message.find("LOW..HIGH"), std::string::npos) << range.error().message;
  }
  const Result<BatchRange> turned = parse_batch_range("512..64");
  ASSERT_FALSE(turned.ok());
  EXPECT_NE(turned.error().message.find("did you mean 64..512"), std::string::npos);
}

TEST(LrRule, FollowsTheBatch) {
  EXPECT_EQ(rate_factor(LrRule::kLinear, 512, 128), 4.0);
  EXPECT_EQ(rate_factor(LrRule::kSqrt, 512, 128), 2.0);
  EXPECT_EQ(rate_factor(LrRule::kNone, 512, 128), 1.0);
  for (const char* name : {"linear", "sqrt", "none"}) {
    const Result<LrRule> rule = parse_lr_rule(name);
    ASSERT_TRUE(rule.ok());
    EXPECT_EQ(to_string(*rule), name);
    EXPECT_EQ(rate_factor(*rule, 96, 96), 1.0);
  }
  EXPECT_FALSE(parse_lr_rule("Linear").ok());
  EXPECT_FALSE(parse_lr_rule("").ok());
}

TEST(BatchRule, AConsistentJobIsFixed) {
  const BatchRule rule = BatchRule::consistent(8, 16);
  EXPECT_EQ(rule.logical_workers(3), 8);
  EXPECT_EQ(rule.batch(3, 3, 0), 128);
  EXPECT_EQ(rule.batch(1, 8, 512), 128);
}

TEST(BatchRule, AnAdaptiveJobKeepsTheShareOfAWorkerWithinTheRange) {
  const BatchRule rule = BatchRule::adaptive({64, 256}, 32);
  EXPECT_EQ(rule.logical_workers(3), 3);
  EXPECT_EQ(rule.batch(3, 3, 0), 96);
  EXPECT_EQ(rule.batch(1, 1, 0), 64);     // not below the range
  EXPECT_EQ(rule.batch(16, 16, 0), 256);  // not above it
}

TEST(BatchRule, WhatWasAskedForBelongsToTheWantedWorkers) {
  const BatchRule rule = BatchRule::adaptive({16, 1024}, 32);
  EXPECT_EQ(rule.batch(8, 8, 1000), 1000);
  EXPECT_EQ(rule.batch(4, 8, 1000), 500);  // the others are still starting, or were lost
  EXPECT_EQ(rule.batch(3, 7, 100), 42);
  EXPECT_EQ(rule.batch(1, 256, 1024), 16);
}

}  // namespace
}  // namespace rubato::elastic
