// Results, text helpers, statistics and parallel_for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "base/parallel.h"
#include "base/result.h"
#include "base/stats.h"
#include "base/text.h"

namespace rubato {
namespace {

// --- ids -----------------------------------------------------------------------------------------

TEST(Ids, AnIdIsInvalidUntilItIsGivenOut) {
  EXPECT_FALSE(JobId().valid());
  EXPECT_TRUE(JobId(0).valid());
  EXPECT_EQ(JobId(std::size_t{7}).index(), 7U);
  EXPECT_LT(NodeId(1), NodeId(2));
  std::unordered_set<JobId> set{JobId(1), JobId(1), JobId(2)};
  EXPECT_EQ(set.size(), 2U);
}

// --- result --------------------------------------------------------------------------------------

Result<int> half(int value) {
  if (value % 2 != 0) return invalid_input("odd");
  return value / 2;
}

TEST(Result, HoldsEitherAValueOrAnError) {
  const auto good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 4);
  const auto bad = half(7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(bad.error().message, "odd");
  EXPECT_TRUE(ok_status().ok());
}

TEST(Result, MovesAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = std::move(*result);
  EXPECT_EQ(*taken, 5);
  Result<std::string> text(std::string("abc"));
  EXPECT_EQ(text->size(), 3U);
}

TEST(ResultDeathTest, AskingForWhatIsNotThereStopsTheProgram) {
  const auto bad = half(7);
  EXPECT_DEATH(static_cast<void>(bad.value()), "holds an error");
  const auto good = half(8);
  EXPECT_DEATH(static_cast<void>(good.error()), "holds a value");
}

// --- text ----------------------------------------------------------------------------------------

TEST(Text, TrimRemovesBlanksAtBothEndsOnly) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim(" \t\n "), "");
  EXPECT_EQ(trim("x"), "x");
}

TEST(Text, SplitKeepsEmptyParts) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,b,c", ','), (Parts{"a", "b", "c"}));
  EXPECT_EQ(split("", ','), (Parts{""}));
  EXPECT_EQ(split(",a,,", ','), (Parts{"", "a", "", ""}));
}

TEST(Text, ParseDoubleTakesNothingButANumber) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double("-2e-3"), -0.002);
  EXPECT_EQ(parse_double("0"), 0.0);
  for (const char* bad : {"", " 1", "1 ", "1x", "x", "nan", "NaN", "inf", "-inf", "infinity", "+1",
                          "1e400", "0x10", "1,5", "1.5.2", "--1"}) {
    EXPECT_FALSE(parse_double(bad).has_value()) << "'" << bad << "'";
  }
}

TEST(Text, ParseIntTakesNothingButAWholeNumber) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-7"), -7);
  EXPECT_EQ(parse_int("9223372036854775807"), 9223372036854775807LL);
  for (const char* bad : {"", " 1", "1 ", "1.0", "1e3", "x", "+1", "0x10", "9223372036854775808",
                          "99999999999999999999999999"}) {
    EXPECT_FALSE(parse_int(bad).has_value()) << "'" << bad << "'";
  }
}

TEST(Text, NearestNameSuggestsOnlyWhatIsClose) {
  const std::vector<std::string> names{"duration_s", "devices", "fifo", "pollux"};
  EXPECT_EQ(nearest_name("duration", names), "duration_s");  // 2 insertions
  EXPECT_EQ(nearest_name("devces", names), "devices");       // 1 insertion
  EXPECT_EQ(nearest_name("pullox", names), "pollux");        // 2 substitutions
  EXPECT_EQ(nearest_name("fifo", names), "fifo");
  EXPECT_EQ(nearest_name("gradient", names), "");
  EXPECT_EQ(nearest_name("anything", {}), "");
  EXPECT_EQ(did_you_mean("fifi", names), " (did you mean 'fifo'?)");
  EXPECT_EQ(did_you_mean("gradient", names), "");
}

TEST(Text, AVeryLongNameIsNotTakenForAShortOne) {
  const std::vector<std::string> names{"fifo"};
  EXPECT_EQ(nearest_name(std::string(10'000'000, 'x'), names), "");
}

TEST(Text, CountedHasAPluralExceptForOne) {
  EXPECT_EQ(counted(0, "worker"), "0 workers");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(2, "logical worker"), "2 logical workers");
}

TEST(Text, JoinPutsTheSeparatorBetweenParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(join(Parts{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(Parts{"a"}, ", "), "a");
  EXPECT_EQ(join(Parts{}, ", "), "");
  EXPECT_EQ(join(Parts{"", "b"}, ","), ",b");
}

// --- stats ---------------------------------------------------------------------------------------

TEST(Stats, MeanOfASample) {
  EXPECT_EQ(mean(std::array<double, 0>{}), 0);
  EXPECT_EQ(mean(std::array{3.0}), 3);
  EXPECT_EQ(mean(std::array{1.0, 2.0, 6.0}), 3);  // 9 / 3
}

TEST(Stats, PercentilesInterpolateBetweenRanks) {
  // Rank of p in n values: p/100 (n-1), from 0.
  const std::array sorted{10.0, 20.0, 30.0, 40.0};
  EXPECT_EQ(percentile_sorted(sorted, 0), 10);
  EXPECT_EQ(percentile_sorted(sorted, 100), 40);
  EXPECT_EQ(percentile_sorted(sorted, 50), 25);             // rank 1.5: between 20 and 30
  EXPECT_DOUBLE_EQ(percentile_sorted(sorted, 90), 37);      // rank 2.7: 30 + 0.7 x 10
  EXPECT_NEAR(percentile_sorted(sorted, 99), 39.7, 1e-12);  // rank 2.97
  EXPECT_EQ(percentile_sorted(std::array{5.0}, 99), 5);     // one value is every percentile
  EXPECT_EQ(percentile_sorted(std::array{1.0, 2.0}, 50), 1.5);
  EXPECT_EQ(percentile_sorted(std::array<double, 0>{}, 50), 0);
}

TEST(Stats, SortedCopyLeavesTheSampleAlone) {
  const std::vector<double> sample{3, 1, 2};
  EXPECT_EQ(sorted_copy(sample), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(sample, (std::vector<double>{3, 1, 2}));
}

// --- parallel_for --------------------------------------------------------------------------------

void expect_each_index_once(std::size_t count, int threads) {
  std::vector<std::atomic<int>> calls(count);
  parallel_for(count, threads, [&](std::size_t i) { ++calls[i]; });
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(calls[i].load(), 1) << "index " << i << " of " << count << ", " << threads
                                  << " threads";
  }
}

TEST(ParallelFor, CallsEachIndexExactlyOnce) {
  expect_each_index_once(1000, 1);
  expect_each_index_once(1000, 2);
  expect_each_index_once(997, 8);
}

TEST(ParallelFor, MoreThreadsThanWork) {
  expect_each_index_once(1, 16);
  expect_each_index_once(3, 64);
}

TEST(ParallelFor, ZeroWorkReturnsAtOnce) {
  for (const int threads : {-1, 0, 1, 8}) {
    parallel_for(0, threads, [](std::size_t) { FAIL() << "called without work"; });
  }
}

TEST(ParallelFor, WithoutThreadsTheCallerDoesTheWork) {
  for (const int threads : {-3, 0, 1}) {
    std::set<std::thread::id> seen;
    parallel_for(10, threads, [&](std::size_t) { seen.insert(std::this_thread::get_id()); });
    EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
  }
  EXPECT_GE(hardware_threads(), 1);
}

}  // namespace
}  // namespace rubato
