// The terms and the data board of adaptive jobs.
#include "elastic/data/adaptive.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "elastic/memory/data_board.h"

namespace rubato::elastic {
namespace {

DataOrder order(std::int64_t samples, int workers, std::int64_t batch) {
  return DataOrder({.seed = 5, .samples = samples, .logical_workers = workers, .batch = batch});
}

AdaptiveTerms terms(const DataOrder& reference, std::int64_t epochs, std::int64_t steps = -1,
                    LrRule rule = LrRule::kLinear) {
  Result<AdaptiveTerms> made = AdaptiveTerms::make(reference, {8, 64}, rule, epochs, steps);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *made;
}

std::int64_t total(const AdaptiveTerms& t) { return t.partitions().options().total_samples; }

TEST(AdaptiveTerms, TheFirstBatchMustBeInTheRange) {
  const Result<AdaptiveTerms> made =
      AdaptiveTerms::make(order(1000, 3, 2), {8, 64}, LrRule::kLinear, 1, -1);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("6 samples (2 on each of 3 workers)"), std::string::npos)
      << made.error().message;
  EXPECT_NE(made.error().message.find("8..64"), std::string::npos);
}

TEST(AdaptiveTerms, TheAmountOfTrainingIsThatOfTheFirstBatch) {
  EXPECT_EQ(total(terms(order(100, 2, 8), 3)), 300);
  EXPECT_EQ(total(terms(order(100, 2, 8), 3, 2)), 32);
  EXPECT_EQ(total(terms(order(100, 2, 8), 3, 7)), 100);  // the last step of an epoch is short
  EXPECT_EQ(total(terms(order(100, 2, 8), 3, 9)), 132);
  EXPECT_EQ(total(terms(order(100, 2, 8), 3, 99)), 300);  // the epochs end earlier
  EXPECT_EQ(total(terms(order(100, 2, 8), 3, 0)), 0);
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(total(terms(order(100, 2, 8), huge)), std::numeric_limits<std::int64_t>::max());
}

TEST(AdaptiveTerms, AScheduleGoesWithTheSamples) {
  const AdaptiveTerms t = terms(order(100, 2, 8), 3);  // 7 steps of 16 per epoch
  const auto info = [&](std::int64_t epoch, std::int64_t used, std::int64_t batch) {
    return t.info({.step = 1000, .epoch = epoch, .used = used, .batch = batch});
  };
  EXPECT_EQ(info(0, 0, 16).step, 0);
  EXPECT_EQ(info(0, 0, 16).steps_per_epoch, 7);
  EXPECT_EQ(info(0, 0, 16).rate_factor, 1.0);
  EXPECT_EQ(info(0, 64, 64).step, 4);
  EXPECT_EQ(info(0, 64, 64).rate_factor, 4.0);
  EXPECT_EQ(info(0, 72, 8).step, 4);
  EXPECT_EQ(info(2, 200, 8).step, 14);
  EXPECT_EQ(info(2, 200, 8).epoch, 2);
  EXPECT_EQ(info(2, 200, 8).rate_factor, 0.5);
}

TEST(AdaptiveTerms, WithTheFirstBatchAScheduleIsThatOfAConsistentJob) {
  const DataOrder reference = order(100, 2, 8);
  const AdaptiveTerms t = terms(reference, 3);
  DataState state;
  StepShares shares;
  std::int64_t step = 0;
  for (; !t.partitions().done(state); ++step) {
    const StepInfo info = t.info(
        {.step = step, .epoch = state.epoch, .used = t.partitions().used(state), .batch = 16});
    EXPECT_EQ(info.step, step);
    EXPECT_EQ(info.epoch, reference.epoch_of(step));
    EXPECT_EQ(info.rate_factor, 1.0);
    state = t.partitions().take(state, 2, 16, shares);
  }
  EXPECT_EQ(step, 21);
}

TEST(AdaptiveTerms, WeightsCountSamples) {
  const DataOrder reference = order(20, 2, 8);
  const AdaptiveTerms t = terms(reference, 1);
  DataState state;
  StepShares shares;
  MiniBatch batch;
  std::set<std::int64_t> seen;
  for (std::int64_t step = 0; !t.partitions().done(state); ++step) {
    state = t.partitions().take(state, 3, 13, shares);
    double weights = 0;
    std::int64_t counted = 0;
    for (int logical = 0; logical < 3; ++logical) {
      t.fill(shares, step, logical, batch);
      EXPECT_EQ(batch.step, step);
      EXPECT_EQ(batch.logical_workers, 3);
      EXPECT_EQ(static_cast<std::int64_t>(batch.samples.size()), shares.count(logical));
      EXPECT_EQ(batch.random_seed, reference.share_seed(step, logical));
      for (const std::int64_t sample : batch.samples) EXPECT_TRUE(seen.insert(sample).second);
      weights += batch.weight;
      counted += static_cast<std::int64_t>(batch.samples.size());
    }
    EXPECT_EQ(counted, shares.samples);
    EXPECT_NEAR(weights, 3.0, 1e-12);  // the mean over the samples, after division by 3
  }
  EXPECT_EQ(seen.size(), 20u);
}

class DataBoardTest : public ::testing::Test {
 protected:
  void TearDown() override { remove_segment(name_); }
  const std::string name_ = "rubato.test.data." + std::to_string(getpid());
};

TEST_F(DataBoardTest, KeepsTwoStates) {
  const DataBoard board = std::move(
      *DataBoard::create(name_, {.most_logical_workers = 3, .most_samples = 10, .data_set = 50}));
  const DataBoard same = std::move(*DataBoard::open(name_));
  const DataState a{.epoch = 1, .opened = 30, .held = {{1, 4}, {8, 9}, {20, 25}}, .returned = {}};
  const DataState b{.epoch = 2, .opened = 8, .held = {{1, 2}}, .returned = {{4, 6}, {6, 8}}};
  board.put_state(4, a);
  board.put_state(5, b);
  EXPECT_EQ(same.state(4), a);
  EXPECT_EQ(same.state(5), b);
  board.put_state(6, b);
  EXPECT_EQ(same.state(6), b);
}

TEST_F(DataBoardTest, FactsSayOfWhichStepTheyAre) {
  const DataBoard board = std::move(
      *DataBoard::create(name_, {.most_logical_workers = 3, .most_samples = 10, .data_set = 50}));
  EXPECT_FALSE(board.facts(0).has_value());
  board.put_facts({.step = 7, .epoch = 2, .used = 123, .batch = 9, .logical_workers = 3});
  ASSERT_TRUE(board.facts(7).has_value());
  EXPECT_EQ(board.facts(7)->used, 123);
  EXPECT_EQ(board.facts(7)->batch, 9);
  EXPECT_FALSE(board.facts(5).has_value());
  board.put_facts({.step = 9, .epoch = 2, .used = 150, .batch = 9, .logical_workers = 3});
  EXPECT_FALSE(board.facts(7).has_value());
}

TEST_F(DataBoardTest, FactsAreNeverOfTwoSteps) {
  const DataBoard board = std::move(
      *DataBoard::create(name_, {.most_logical_workers = 3, .most_samples = 10, .data_set = 50}));
  constexpr std::int64_t kSteps = 20'000;
  std::atomic<std::int64_t> written{0};
  std::thread writer([&] {
    for (std::int64_t s = 1; s <= kSteps; ++s) {
      board.put_facts(
          {.step = s, .epoch = s, .used = s, .batch = s, .logical_workers = static_cast<int>(s)});
      written.store(s, std::memory_order_relaxed);
    }
  });
  std::int64_t step = 0;
  while (step < kSteps) {
    step = written.load(std::memory_order_relaxed);
    const std::optional<StepFacts> facts = board.facts(step);
    if (!facts) continue;  // overwritten meanwhile
    EXPECT_EQ(facts->epoch, step);
    EXPECT_EQ(facts->used, step);
    EXPECT_EQ(facts->batch, step);
    EXPECT_EQ(facts->logical_workers, step);
  }
  writer.join();
}

TEST_F(DataBoardTest, OtherMemoryIsRefused) {
  const Segment segment = std::move(*Segment::create(name_, 64));
  EXPECT_FALSE(DataBoard::open(name_).ok());
  EXPECT_FALSE(DataBoard::open(name_ + ".nothing").ok());
}

}  // namespace
}  // namespace rubato::elastic
