// Each sample is used once per epoch, whichever worker computes it, and the order never changes.
#include "elastic/data/data_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/random.h"

namespace rubato::elastic {
namespace {

std::vector<std::int64_t> order_of(const DataOrder& order, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < order.options().samples; ++i) {
    samples.push_back(order.sample_at(epoch, i));
  }
  return samples;
}

bool is_permutation_of_indices(std::vector<std::int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(DataOrder, AnEpochIsAPermutation) {
  for (std::int64_t samples = 1; samples <= 1000; ++samples) {
    const DataOrder order({.seed = 5, .samples = samples});
    EXPECT_TRUE(is_permutation_of_indices(order_of(order, samples % 7))) << samples;
  }
  for (const std::int64_t samples : {4096, 4097, 65535, 100'003}) {
    const DataOrder order({.seed = 99, .samples = samples});
    EXPECT_TRUE(is_permutation_of_indices(order_of(order, 3))) << samples;
  }
}

TEST(DataOrder, SampledPositionsOfLargeEpochsNeverCollide) {
  for (const std::int64_t samples :
       {std::int64_t{1'000'000}, std::int64_t{1} << 40, (std::int64_t{1} << 62) + 1,
        std::numeric_limits<std::int64_t>::max()}) {
    const DataOrder order({.seed = 1, .samples = samples});
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 20'000; ++i) {
      const std::int64_t sample = order.sample_at(0, samples / 20'000 * i);
      ASSERT_GE(sample, 0);
      ASSERT_LT(sample, samples);
      ASSERT_TRUE(seen.insert(sample).second) << samples << " position " << i;
    }
  }
}

TEST(DataOrder, EverySampleIsUsedOncePerEpochAndWeightsSumToN) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const DataOrder order({.seed = random.next(),
                           .samples = random.between(1, 200),
                           .logical_workers = random.between(1, 12),
                           .batch = random.between(1, 20),
                           .shuffle = random.chance(0.8)});
    const int workers = order.options().logical_workers;
    const std::int64_t steps = order.steps_per_epoch();
    MiniBatch share;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> used;
      for (std::int64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
        EXPECT_EQ(order.epoch_of(step), epoch);
        double weights = 0;
        std::size_t largest = 0;
        std::size_t smallest = 1000;
        std::size_t before = 1000;
        for (int logical = 0; logical < workers; ++logical) {
          order.share(step, logical, share);
          EXPECT_EQ(share.step, step);
          EXPECT_EQ(share.epoch, epoch);
          EXPECT_EQ(share.logical, logical);
          EXPECT_EQ(share.logical_workers, workers);
          used.insert(used.end(), share.samples.begin(), share.samples.end());
          weights += share.weight;
          EXPECT_EQ(share.samples.empty(), share.weight == 0);
          EXPECT_LE(share.samples.size(), before);  // lower logical workers first
          before = share.samples.size();
          largest = std::max(largest, share.samples.size());
          smallest = std::min(smallest, share.samples.size());
        }
        EXPECT_NEAR(weights, workers, 1e-9);
        EXPECT_LE(largest - smallest, 1U);
        EXPECT_GT(largest, 0U);
        if (step + 1 < (epoch + 1) * steps) {
          EXPECT_EQ(static_cast<std::int64_t>(smallest), order.options().batch);
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(used.size()), order.options().samples);
      EXPECT_TRUE(is_permutation_of_indices(used));
    }
  }
}

TEST(DataOrder, WithoutShufflingTheOrderIsTheNaturalOne) {
  const DataOrder order({.samples = 10, .logical_workers = 2, .batch = 3, .shuffle = false});
  MiniBatch share;
  order.share(0, 1, share);
  EXPECT_EQ(share.samples, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(order.steps_per_epoch(), 2);
  order.share(3, 0, share);  // short: 4 samples left for two
  EXPECT_EQ(share.samples, (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(share.weight, 1.0);
}

TEST(DataOrder, SharesOfATinyLastStepMayBeEmpty) {
  const DataOrder order({.samples = 9, .logical_workers = 4, .batch = 2, .shuffle = false});
  MiniBatch share;
  order.share(1, 0, share);
  EXPECT_EQ(share.samples, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(share.weight, 4.0);
  order.share(1, 1, share);
  EXPECT_TRUE(share.samples.empty());
  EXPECT_EQ(share.weight, 0.0);
}

TEST(DataOrder, HugeBatchesDoNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const DataOrder order({.samples = 5, .logical_workers = 1'000'000, .batch = kMost});
  EXPECT_EQ(order.steps_per_epoch(), 1);
  MiniBatch share;
  order.share(7, 4, share);
  EXPECT_EQ(share.samples.size(), 1U);
  order.share(7, 999'999, share);
  EXPECT_TRUE(share.samples.empty());
}

TEST(DataOrder, SeedsEpochsAndSharesDiffer) {
  const DataOrder one({.seed = 1, .samples = 500, .logical_workers = 8});
  const DataOrder two({.seed = 2, .samples = 500, .logical_workers = 8});
  EXPECT_NE(order_of(one, 0), order_of(two, 0));
  EXPECT_NE(order_of(one, 0), order_of(one, 1));
  std::set<std::uint64_t> seeds;
  MiniBatch share;
  for (std::int64_t step = 0; step < 200; ++step) {
    for (int logical = 0; logical < 8; ++logical) {
      one.share(step, logical, share);
      seeds.insert(share.random_seed);
      two.share(step, logical, share);
      seeds.insert(share.random_seed);
    }
  }
  EXPECT_EQ(seeds.size(), 2U * 200 * 8);
}

// Over many epochs, every sample should reach every position about equally often. Chi-squared with
// 63 degrees of freedom exceeds 140 with probability below 1e-6.
TEST(DataOrder, PositionsAreSpreadEvenly) {
  const DataOrder order({.seed = 42, .samples = 64});
  for (const std::int64_t position : {0, 1, 31, 63}) {
    std::vector<double> count(64, 0);
    for (std::int64_t epoch = 0; epoch < 6400; ++epoch) {
      count[static_cast<std::size_t>(order.sample_at(epoch, position))] += 1;
    }
    double chi = 0;
    for (const double c : count) chi += (c - 100) * (c - 100) / 100;
    EXPECT_LT(chi, 140) << "position " << position;
  }
}

// The order is part of what a seed means: changing it would change the result of every job that is
// restarted with a newer program. Never adapt these numbers.
TEST(DataOrder, TheOrderNeverChanges) {
  const DataOrder small({.seed = 7, .samples = 12, .logical_workers = 2, .batch = 3});
  EXPECT_EQ(order_of(small, 0), (std::vector<std::int64_t>{6, 5, 8, 7, 10, 3, 2, 11, 0, 4, 9, 1}));
  EXPECT_EQ(order_of(small, 1), (std::vector<std::int64_t>{10, 8, 0, 3, 1, 11, 6, 5, 7, 2, 9, 4}));
  const DataOrder large({.seed = 0xfeedfacecafebeef, .samples = 1'000'000});
  std::vector<std::int64_t> some;
  for (const std::int64_t position : {0, 1, 2, 500'000, 999'999}) {
    some.push_back(large.sample_at(123, position));
  }
  EXPECT_EQ(some, (std::vector<std::int64_t>{659, 583366, 87044, 132200, 265163}));
  MiniBatch share;
  small.share(5, 1, share);
  EXPECT_EQ(share.random_seed, 17682174089107160980U);
}

}  // namespace
}  // namespace rubato::elastic
