// Partitions handed out on demand: each position once per epoch, whatever the views do.
#include "elastic/data/partitions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/random.h"

namespace rubato::elastic {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

// All positions of a step, by logical worker.
std::vector<std::vector<std::int64_t>> positions(const StepShares& shares) {
  std::vector<std::vector<std::int64_t>> all;
  for (const auto& share : shares.of_logical) {
    auto& own = all.emplace_back();
    for (const PositionRange& range : share) {
      for (std::int64_t p = range.begin; p < range.end; ++p) own.push_back(p);
    }
  }
  return all;
}

using Shares = std::vector<std::vector<std::int64_t>>;

TEST(Partitions, EachLogicalWorkerUsesItsPartitionFromFrontToBack) {
  const Partitions partitions({.samples = 12, .partition = 4, .total_samples = kForever});
  StepShares shares;
  DataState state = partitions.take({}, 2, 4, shares);
  EXPECT_EQ(positions(shares), (Shares{{0, 1}, {4, 5}}));
  state = partitions.take(state, 2, 4, shares);
  EXPECT_EQ(positions(shares), (Shares{{2, 3}, {6, 7}}));
  state = partitions.take(state, 2, 4, shares);  // the second takes from the remainder of the first
  EXPECT_EQ(positions(shares), (Shares{{8, 9}, {11, 10}}));
  EXPECT_EQ(state.epoch, 1);
  EXPECT_EQ(partitions.used(state), 12);
}

TEST(Partitions, AGoneLogicalWorkerGivesItsRestBack) {
  const Partitions partitions({.samples = 100, .partition = 8, .total_samples = kForever});
  StepShares shares;
  DataState state = partitions.take({}, 3, 6, shares);
  EXPECT_EQ(positions(shares), (Shares{{0, 1}, {8, 9}, {16, 17}}));
  state = partitions.take(state, 1, 8, shares);  // 6 of its own, then from the first that came back
  EXPECT_EQ(positions(shares), (Shares{{2, 3, 4, 5, 6, 7, 10, 11}}));
  state = partitions.take(state, 2, 6, shares);  // the newcomer takes the other
  EXPECT_EQ(positions(shares), (Shares{{12, 13, 14}, {18, 19, 20}}));
}

TEST(Partitions, TheLastStepIsDividedEvenly) {
  const Partitions partitions({.samples = 10, .partition = 10, .total_samples = kForever});
  StepShares shares;
  DataState state = partitions.take({}, 3, 6, shares);
  state = partitions.take(state, 3, 6, shares);
  EXPECT_EQ(shares.samples, 4);
  EXPECT_EQ(shares.count(0), 2);
  EXPECT_EQ(shares.count(1), 1);
  EXPECT_EQ(shares.count(2), 1);
  EXPECT_EQ(shares.first(2), 3);
  EXPECT_EQ(state.epoch, 1);
}

TEST(Partitions, FewerSamplesThanLogicalWorkersLeaveSomeEmpty) {
  const Partitions partitions({.samples = 2, .partition = 1, .total_samples = 3});
  StepShares shares;
  DataState state = partitions.take({}, 4, 8, shares);
  EXPECT_EQ(shares.samples, 2);
  EXPECT_EQ(shares.count(3), 0);
  state = partitions.take(state, 4, 8, shares);
  EXPECT_EQ(shares.samples, 1);  // the job ends in the middle of the epoch
  EXPECT_TRUE(partitions.done(state));
}

// Random views, batches and repeated steps: every epoch uses each position once, every step except
// the last of an epoch has as many samples as its batch, and the state never outgrows its space.
TEST(Partitions, EachPositionOncePerEpochWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::int64_t samples = random.between(1, 200);
    const int most_workers = random.between(1, 9);
    const std::int64_t total = samples * 3 + random.between(0, 50);
    const Partitions partitions(
        {.samples = samples, .partition = random.between(1, 40), .total_samples = total});
    DataState state;
    StepShares shares;
    std::map<std::int64_t, std::vector<std::int64_t>> used;  // by epoch
    int workers = 1;
    std::int64_t batch = 1;
    while (!partitions.done(state)) {
      if (random.chance(0.3)) workers = random.between(1, most_workers);
      if (random.chance(0.3)) batch = random.between(1, 64);
      DataState next = partitions.take(state, workers, batch, shares);
      if (random.chance(0.2)) {  // interrupted, then repeated by others
        workers = random.between(1, most_workers);
        next = partitions.take(state, workers, batch, shares);
      }
      ASSERT_EQ(shares.samples,
                std::min({batch, (state.epoch + 1) * samples - partitions.used(state),
                          total - partitions.used(state)}));
      for (int i = 0; i < workers; ++i) {
        ASSERT_LE(shares.count(0) - shares.count(i), 1);
        ASSERT_GE(shares.count(0), shares.count(i));
      }
      for (const auto& share : positions(shares)) {
        used[shares.epoch].insert(used[shares.epoch].end(), share.begin(), share.end());
      }
      const std::vector<std::int64_t> words = to_words(next);
      ASSERT_LE(words.size(), most_words(most_workers));
      const Result<DataState> parsed = parse_data_state(words, samples);
      ASSERT_TRUE(parsed.ok()) << parsed.error().message;
      ASSERT_EQ(*parsed, next);
      state = next;
    }
    EXPECT_EQ(partitions.used(state), total);
    for (auto& [epoch, positions] : used) {
      std::sort(positions.begin(), positions.end());
      ASSERT_EQ(std::adjacent_find(positions.begin(), positions.end()), positions.end()) << epoch;
      const bool last = (epoch + 1) * samples > total;
      ASSERT_EQ(static_cast<std::int64_t>(positions.size()), last ? total % samples : samples);
    }
  }
}

TEST(Partitions, GarbageIsNoState) {
  const std::vector<std::int64_t> good = to_words(
      DataState{.epoch = 1, .opened = 20, .held = {{3, 8}, {12, 20}}, .returned = {{8, 10}}});
  ASSERT_TRUE(parse_data_state(good, 20).ok());
  EXPECT_FALSE(parse_data_state(good, 19).ok());  // outside the data set
  EXPECT_FALSE(parse_data_state({}, 20).ok());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse_data_state(std::span(good).first(length), 20).ok()) << length;
  }
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, std::int64_t>>{{0, -1},
                                                                                   {1, -1},
                                                                                   {1, 5},
                                                                                   {2, 0},
                                                                                   {2, 3},
                                                                                   {2, kForever},
                                                                                   {3, -1},
                                                                                   {3, kForever},
                                                                                   {4, -2},
                                                                                   {4, 9},
                                                                                   {5, 13},
                                                                                   {7, 21},
                                                                                   {8, 7},
                                                                                   {8, 30}}) {
    std::vector<std::int64_t> bad = good;
    bad[at] = value;
    EXPECT_FALSE(parse_data_state(bad, 20).ok()) << at << " = " << value;
  }
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int64_t> bad = good;
    for (int k = random.between(1, 3); k > 0; --k) {
      bad[random.below(static_cast<std::uint32_t>(bad.size()))] = random.between(-3, 30);
    }
    const Result<DataState> parsed = parse_data_state(bad, 20);
    if (!parsed.ok()) continue;
    // Whatever is accepted must be usable.
    const Partitions partitions({.samples = 20, .partition = 4, .total_samples = kForever});
    StepShares shares;
    if (partitions.used(*parsed) < 20 * (parsed->epoch + 1)) {
      partitions.take(*parsed, 2, 3, shares);
      EXPECT_GE(shares.samples, 1);
    }
  }
}

}  // namespace
}  // namespace rubato::elastic
