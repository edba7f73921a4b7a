// What a data board gives to another node, and what it takes from one.
#include "elastic/memory/data_board.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "base/random.h"

namespace rubato::elastic {
namespace {

constexpr DataBoardShape kShape{.most_logical_workers = 8, .most_samples = 12, .data_set = 100};

class DataForNodes : public testing::Test {
 protected:
  static DataBoard make(const char* name) {
    const std::string full = fmt::format("rubato-data-test-{}-{}", getpid(), name);
    Result<DataBoard> board = DataBoard::create(full, kShape);
    EXPECT_TRUE(board.ok()) << board.error().message;
    remove_segment(full);
    return std::move(*board);
  }
  static DataState state(std::int64_t step) {
    DataState made;
    made.opened = 10 + step;
    made.held = {{step, step + 2}, {step + 5, step + 6}};
    return made;
  }
  static void write(const DataBoard& board, std::int64_t step) {
    board.put_facts({.step = step, .epoch = 2, .used = 207, .batch = 9, .logical_workers = 2});
    board.put_state(step + 1, state(step + 1));
    for (std::size_t i = 0; i < board.samples(step).size(); ++i) {
      board.samples(step)[i] = step * 100 + static_cast<std::int64_t>(i);
    }
  }
};

TEST_F(DataForNodes, AStepIsTheSameOnTheOtherNode) {
  const DataBoard from = make("from");
  const DataBoard to = make("to");
  for (std::int64_t step = 3; step < 6; ++step) {
    write(from, step);
    ASSERT_TRUE(to.put_step(step, from.copy_step(step), true));
    EXPECT_EQ(to.state(step + 1), from.state(step + 1));
    ASSERT_TRUE(to.facts(step).has_value());
    EXPECT_EQ(to.facts(step)->used, 207);
    EXPECT_EQ(to.facts(step)->logical_workers, 2);
    EXPECT_TRUE(
        std::equal(to.samples(step).begin(), to.samples(step).end(), from.samples(step).begin()));
  }
}

TEST_F(DataForNodes, OnlyTheFactsOfAStepThatMayBeTorn) {
  const DataBoard from = make("from");
  const DataBoard to = make("to");
  write(from, 3);
  ASSERT_TRUE(to.put_step(3, from.copy_step(3), true));
  write(from, 4);
  ASSERT_TRUE(to.put_step(4, from.copy_step(4), false));
  EXPECT_TRUE(to.facts(4).has_value());
  EXPECT_EQ(to.state(4), state(4));  // of step 3
}

// Before the first step there is a state, but there are no facts.
TEST_F(DataForNodes, FactsThatAreNotThereAreLeftOut) {
  const DataBoard from = make("from");
  const DataBoard to = make("to");
  from.put_state(0, DataState{});
  ASSERT_TRUE(to.put_step(-1, from.copy_step(-1), true));
  EXPECT_EQ(to.state(0), DataState{});
  EXPECT_FALSE(to.facts(-1).has_value());
}

// A state on the board is read without further checks, so garbage must not get there.
TEST_F(DataForNodes, GarbageChangesNothing) {
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  const DataBoard from = make("from");
  const DataBoard to = make("to");
  write(from, 3);
  ASSERT_TRUE(to.put_step(3, from.copy_step(3), true));
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = from.copy_step(3);
    const int changes = random.between(1, 4);
    for (int i = 0; i < changes; ++i) {
      const std::size_t word = random.below(static_cast<std::uint32_t>(bytes.size() / 8));
      std::int64_t value = random.between(-3, 120);
      if (random.chance(0.3)) value = static_cast<std::int64_t>(random.next());
      std::memcpy(bytes.data() + word * 8, &value, 8);
    }
    if (random.chance(0.1)) bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size())));
    taken += to.put_step(3, bytes, random.chance(0.8)) ? 1 : 0;
    const DataState now = to.state(4);  // ends the program if it cannot be a state
    EXPECT_LE(now.logical_workers(), kShape.most_logical_workers);
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 20000);
}

}  // namespace
}  // namespace rubato::elastic
