#include "solve/allocate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "knapsack_instances.h"
#include "knapsack_mip.h"

namespace rubato {
namespace {

// Brute force over all combinations.
std::optional<double> brute_force(const std::vector<std::vector<Choice>>& tables, std::size_t from,
                                  int capacity) {
  if (from == tables.size()) return 0.0;
  std::optional<double> best;
  for (const Choice& choice : tables[from]) {
    if (choice.size > capacity) continue;
    const auto rest = brute_force(tables, from + 1, capacity - choice.size);
    if (rest && (!best || choice.value + *rest > *best)) best = choice.value + *rest;
  }
  return best;
}

double scale_of(const Knapsack& knapsack) {
  double scale = 1;
  for (const auto& table : knapsack.tables) {
    double largest = 0;
    for (const Choice& choice : table) largest = std::max(largest, std::abs(choice.value));
    scale += largest;
  }
  return scale;
}

// Checks that the division is consistent and that its bound is valid, recomputed from the price.
void check_sound(const Knapsack& knapsack, const Division& division) {
  ASSERT_TRUE(division.feasible);
  ASSERT_EQ(division.choice.size(), knapsack.tables.size());
  const double tolerance = 1e-12 * scale_of(knapsack);
  long long size = 0;
  double value = 0;
  double bound = division.unit_price * knapsack.capacity;
  for (std::size_t j = 0; j < knapsack.tables.size(); ++j) {
    const auto& table = knapsack.tables[j];
    ASSERT_GE(division.choice[j], 0);
    ASSERT_LT(static_cast<std::size_t>(division.choice[j]), table.size());
    const Choice& chosen = table[static_cast<std::size_t>(division.choice[j])];
    size += chosen.size;
    value += chosen.value;
    double best = -std::numeric_limits<double>::infinity();
    for (const Choice& choice : table) {
      if (choice.size > knapsack.capacity) continue;
      best = std::max(best, choice.value - division.unit_price * choice.size);
    }
    bound += best;
  }
  EXPECT_LE(size, knapsack.capacity);
  EXPECT_NEAR(division.value, value, tolerance);
  EXPECT_GE(division.bound, division.value);
  EXPECT_LE(division.bound, bound + tolerance + 1e-12 * division.unit_price * knapsack.capacity);
}

std::string repeat(const char* test, std::uint64_t seed) {
  return fmt::format("seed {}; repeat with: RUBATO_SEED={} build/bin/unit_tests --gtest_filter={}",
                     seed, seed, test);
}

// The seeds of a test: the given ones, or only the one in RUBATO_SEED.
std::pair<std::uint64_t, std::uint64_t> seeds(std::uint64_t first, std::uint64_t count) {
  if (const char* only = std::getenv("RUBATO_SEED")) {
    const std::uint64_t seed = std::strtoull(only, nullptr, 10);
    return {seed, seed + 1};
  }
  return {first, first + count};
}

// Small tables without any structure: unsorted, repeated and zero sizes, ties, negative values.
Knapsack random_small(Random& random) {
  Knapsack knapsack;
  const int jobs = random.between(0, 5);
  const int largest = random.between(0, 12);
  const bool integers = random.chance(0.5);
  const bool penalties = random.chance(0.1);
  for (int j = 0; j < jobs; ++j) {
    std::vector<Choice> table;
    const int choices = random.chance(0.02) ? 0 : random.between(1, 6);
    for (int k = 0; k < choices; ++k) {
      double value = integers ? random.between(-3, 6) : 20 * random.uniform() - 5;
      if (penalties && random.chance(0.2)) value = -1e9;
      table.push_back({random.between(random.chance(0.7) ? 0 : largest / 2, largest), value});
    }
    knapsack.tables.push_back(table);
  }
  knapsack.capacity = random.chance(0.1) ? 0 : random.between(0, 4 + jobs * largest * 2 / 3);
  return knapsack;
}

void check_against_brute_force(const Knapsack& knapsack) {
  const Division division = allocate(knapsack.tables, knapsack.capacity);
  const std::optional<double> best = brute_force(knapsack.tables, 0, knapsack.capacity);
  ASSERT_EQ(division.feasible, best.has_value());
  if (!best) {
    EXPECT_EQ(division.proof, DivisionProof::kNone);
    return;
  }
  check_sound(knapsack, division);
  EXPECT_NEAR(division.value, *best, 1e-12 * (1 + std::abs(*best)));
  EXPECT_GE(division.bound, *best - 1e-12 * (1 + std::abs(*best)));
}

TEST(Allocate, MatchesBruteForceOnSmallInstancesWithoutStructure) {
  const auto [first, last] = seeds(1, 10'000);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(repeat("Allocate.MatchesBruteForceOnSmallInstancesWithoutStructure", seed));
    Random random(seed);
    check_against_brute_force(random_small(random));
    if (HasFailure()) return;
  }
}

TEST(Allocate, MatchesBruteForceOnEveryKindOfInstance) {
  const auto [first, last] = seeds(100'001, 1'000);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(repeat("Allocate.MatchesBruteForceOnEveryKindOfInstance", seed));
    for (const KnapsackKind kind : kKnapsackKinds) {
      SCOPED_TRACE(name(kind));
      Random random(seed);
      const int jobs = random.between(1, 5);
      const int choices = random.between(1, 6);
      const int capacity = random.between(0, jobs * choices * 2);
      check_against_brute_force(random_knapsack(kind, random, jobs, choices, capacity));
      if (HasFailure()) return;
    }
  }
}

// Concave tables with equal steps never reach the dynamic program.
TEST(Allocate, ConcaveTablesAreSolvedGreedily) {
  const auto [first, last] = seeds(200'001, 10'000);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(repeat("Allocate.ConcaveTablesAreSolvedGreedily", seed));
    Random random(seed);
    const bool tied = random.chance(0.5);
    const int jobs = random.between(1, 6);
    const int step = random.between(1, 3);
    Knapsack knapsack =
        random_knapsack(tied ? KnapsackKind::kConcaveTied : KnapsackKind::kConcave, random, jobs,
                        random.between(1, 6), random.between(0, jobs * 6 * step));
    for (auto& table : knapsack.tables) {
      const int smallest = random.between(0, 2);
      for (Choice& choice : table) choice.size = smallest + choice.size * step;
      // A falling end is dominated. Without it, the table is concave.
      if (random.chance(0.3)) table.push_back({table.back().size + 1, table.back().value - 1});
      for (std::size_t k = table.size(); k > 1; --k) {
        std::swap(table[k - 1], table[random.below(static_cast<std::uint32_t>(k))]);
      }
    }
    check_against_brute_force(knapsack);
    const Division division = allocate(knapsack.tables, knapsack.capacity);
    EXPECT_NE(division.proof, DivisionProof::kProgram);
    if (HasFailure()) return;
  }
}

TEST(Allocate, MatchesThePlainProgram) {
  const auto [first, last] = seeds(300'001, 100);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(repeat("Allocate.MatchesThePlainProgram", seed));
    for (const KnapsackKind kind : kKnapsackKinds) {
      SCOPED_TRACE(name(kind));
      Random random(seed);
      const int jobs = random.between(1, 100);
      const int choices = random.between(2, 16);
      const int capacity = random.between(0, jobs * choices);
      const Knapsack knapsack = random_knapsack(kind, random, jobs, choices, capacity);
      const Division division = allocate(knapsack.tables, knapsack.capacity);
      check_sound(knapsack, division);
      const double best = plain_program(knapsack);
      EXPECT_NEAR(division.value, best, 1e-12 * std::abs(best));
      if (HasFailure()) return;
    }
  }
}

// So large that the dynamic program does not keep all rows and computes some twice.
TEST(Allocate, MatchesThePlainProgramWhenRowsAreComputedTwice) {
  Random random(7);
  Knapsack knapsack;
  knapsack.capacity = 60'001;
  for (int j = 0; j < 150; ++j) {
    // All sizes are even except for one job's, and only its odd size would fill the capacity.
    const int size = 2 * random.between(300, 1'000);
    knapsack.tables.push_back({{0, 0}, {size, static_cast<double>(size)}});
  }
  knapsack.tables.push_back({{0, 0}, {1'001, 700}});
  const Division division = allocate(knapsack.tables, knapsack.capacity);
  check_sound(knapsack, division);
  EXPECT_EQ(division.value, plain_program(knapsack));
  EXPECT_EQ(division.proof, DivisionProof::kProgram);
  EXPECT_GT(division.cells, 2 * (std::int64_t{512} << 10))
      << "no longer large enough for this test";
}

// 200 instances that are too large for brute force. CBC works with tolerances, so it may miss the
// optimum slightly, but it must never find a better division.
TEST(Allocate, MatchesCbc) {
  const auto [first, last] = seeds(400'001, 200);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(repeat("Allocate.MatchesCbc", seed));
    Random random(seed);
    const KnapsackKind kind = kKnapsackKinds[seed % kKnapsackKinds.size()];
    SCOPED_TRACE(name(kind));
    // CBC does not finish larger instances of these kinds.
    const bool hard = kind == KnapsackKind::kAllEqual || kind == KnapsackKind::kCorrelated ||
                      kind == KnapsackKind::kEven || kind == KnapsackKind::kLargeSteps ||
                      kind == KnapsackKind::kStaircase;
    const int jobs = hard ? random.between(8, 14) : random.between(40, 150);
    const int choices = hard ? random.between(4, 10) : random.between(8, 16);
    const int capacity = random.between(jobs, jobs * choices / 2);
    const Knapsack knapsack = random_knapsack(kind, random, jobs, choices, capacity);
    const Division division = allocate(knapsack.tables, knapsack.capacity);
    check_sound(knapsack, division);
    const MipDivision mip = solve_with_cbc(knapsack.tables, knapsack.capacity, 60);
    ASSERT_TRUE(mip.valid);
    EXPECT_GE(division.value, mip.value - 1e-12 * std::abs(mip.value));
    EXPECT_LE(division.value, mip.value + 1e-6 * std::abs(mip.value));
    if (HasFailure()) return;
  }
}

TEST(Allocate, SaysWhatProvedTheResult) {
  const std::vector<Choice> concave{{0, 0}, {1, 5}, {2, 8}, {3, 9}};
  const std::vector<Choice> jump{{0, 0}, {3, 7}};
  {
    const std::vector tables{concave, jump};
    const Division division = allocate(tables, 6);
    EXPECT_EQ(division.proof, DivisionProof::kAllFit);
    EXPECT_EQ(division.value, 16);
    EXPECT_EQ(division.unit_price, 0);
  }
  {
    // Gains per unit: 5, 3, 1 and 7/3: the first two steps and the jump fill 5 units.
    const std::vector tables{concave, jump};
    const Division division = allocate(tables, 5);
    EXPECT_EQ(division.proof, DivisionProof::kGreedy);
    EXPECT_EQ(division.value, 15);
    EXPECT_EQ(division.bound, 15);
    EXPECT_EQ(division.choice, (std::vector{2, 1}));
  }
  {
    // 4 units: 5 + 7, against 9 and an idle unit.
    const std::vector tables{concave, jump};
    const Division division = allocate(tables, 4);
    EXPECT_EQ(division.proof, DivisionProof::kProgram);
    EXPECT_EQ(division.value, 12);
    EXPECT_EQ(division.choice, (std::vector{1, 1}));
  }
  {
    // Linear except for rounding: 0.1 * 3 is not 0.1 + 0.1 + 0.1.
    std::vector<Choice> linear;
    for (int k = 0; k <= 20; ++k) linear.push_back({k, 0.1 * k});
    const std::vector tables(50, linear);
    const Division division = allocate(tables, 333);
    EXPECT_NE(division.proof, DivisionProof::kProgram);
    EXPECT_NEAR(division.value, 33.3, 1e-12);
  }
}

TEST(Allocate, EdgesOfTheContract) {
  EXPECT_FALSE(allocate({}, -1).feasible);
  EXPECT_TRUE(allocate({}, 0).feasible);
  const std::vector<std::vector<Choice>> none{{}};
  EXPECT_FALSE(allocate(none, 5).feasible);
  const std::vector<std::vector<Choice>> too_large{{{3, 1}}, {{3, 1}}};
  EXPECT_FALSE(allocate(too_large, 5).feasible);
  EXPECT_TRUE(allocate(too_large, 6).feasible);
  // Sums of sizes beyond the range of int.
  const int huge = std::numeric_limits<int>::max();
  const std::vector<std::vector<Choice>> overflow(5, {{0, 0}, {huge, 1}, {huge - 1, 2}});
  EXPECT_EQ(allocate(overflow, huge).value, 2);
  // A penalty that need not be paid does not spoil the precision of the rest.
  const std::vector<std::vector<Choice>> penalty{
      {{0, -1e18}, {2, 1}, {3, 1.5}}, {{0, 0}, {2, 1.25}, {3, 1.75}}, {{0, 0}, {2, 0.5}}};
  EXPECT_EQ(allocate(penalty, 5).value, 2.75);
}

}  // namespace
}  // namespace rubato
