#include "sched/policies/mip_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <thread>

#include "base/random.h"
#include "solve/allocate.h"

namespace rubato {
namespace {

constexpr MilpLimits kExact{.seconds = 60, .gap = 0};

// The small haste bonus of a job that no size finishes within one period.
constexpr double kHaste = MipProgram::kHaste;

TEST(MipProgram, OnePeriodIsAKnapsack) {
  // The first job gains most but leaves only one unit: 0.40 + 0.05 against 0.30 + 0.20.
  const MipProgram program{
      .capacity = 4,
      .weights = {1.0},
      .jobs = {
          {.options = {{3, 0.40}}}, {.options = {{1, 0.05}, {2, 0.30}}}, {.options = {{2, 0.20}}}}};
  const MipSolution solution = solve_mip(program, kExact);
  EXPECT_EQ(solution.sizes, (MipSizes{{0}, {2}, {2}}));
  EXPECT_NEAR(solution.value, 0.50 * (1 + kHaste), 1e-12);
  EXPECT_EQ(solution.gap(), 0);
  EXPECT_EQ(solution.outcome, MipOutcome::kOptimal);
  EXPECT_EQ(solution.note, "");

  std::vector<std::vector<Choice>> tables;
  for (const MipJob& job : program.jobs) {
    tables.push_back({{0, 0.0}});
    for (const MipOption& option : job.options) {
      tables.back().push_back({option.size, option.progress * (1 + kHaste)});
    }
  }
  EXPECT_NEAR(allocate(tables, program.capacity).value, solution.value, 1e-12);
}

TEST(MipProgram, OneDoublingPerPeriodBinds) {
  // From 1 unit it may go to 2, then 4, then 8: progress 0.02 + 0.04 + 0.08. It must not stop in
  // order to come back with 8 units, which would be worth 0.08 + 0.08.
  const MipProgram program{.capacity = 8,
                           .weights = {1, 1, 1},
                           .jobs = {{.options = {{1, 0.01}, {2, 0.02}, {4, 0.04}, {8, 0.08}},
                                     .current = 1,
                                     .stop_cost = 0.05}}};
  const MipSolution solution = solve_mip(program, kExact);
  EXPECT_EQ(solution.sizes, (MipSizes{{2, 4, 8}}));
  EXPECT_NEAR(solution.value, 0.14 + kHaste * 0.02, 1e-9);
  EXPECT_FALSE(feasible(program, {{0, 8, 8}}));
  EXPECT_TRUE(feasible(program, {{0, 4, 8}}));
  // A job that does not run yet may start at any size.
  MipProgram waiting = program;
  waiting.jobs[0].current = 0;
  EXPECT_EQ(solve_mip(waiting, kExact).sizes, (MipSizes{{8, 8, 8}}));
  // From 8 units down to 2 takes two steps, unless it stops.
  MipProgram shrinking = program;
  shrinking.jobs[0].current = 8;
  EXPECT_FALSE(feasible(shrinking, {{2, 2, 2}}));
  EXPECT_TRUE(feasible(shrinking, {{4, 2, 2}}));
  EXPECT_TRUE(feasible(shrinking, {{0, 2, 2}}));
}

TEST(MipProgram, ASwitchMustPayForItself) {
  // Growing from 1 to 2 units gains 0.1 in each of two periods (w = 1, 0.5): 0.15, and a haste
  // bonus of 0.001.
  MipProgram program{
      .capacity = 2,
      .weights = {1, 0.5},
      .jobs = {{.options = {{1, 0.1}, {2, 0.2}}, .current = 1, .switch_cost = 0.149}}};
  EXPECT_EQ(solve_mip(program, kExact).sizes, (MipSizes{{2, 2}}));
  EXPECT_NEAR(solve_mip(program, kExact).value, 0.3 + kHaste * 0.2 - 0.149, 1e-9);
  program.jobs[0].switch_cost = 0.153;
  EXPECT_EQ(solve_mip(program, kExact).sizes, (MipSizes{{1, 1}}));
}

TEST(MipProgram, PlansAheadWhereTheKnapsackIsShortSighted) {
  // Two units. `a` ends within one period, `b` runs and needs both units.
  //   a, b: 1 - 0.5 + 0.9 x 0.9 = 1.31      b, a: 0.9 + 0.9 x 1 = 1.80      (+ bonus)
  const MipProgram program{
      .capacity = 2,
      .weights = {1, 0.9},
      .jobs = {{.options = {{1, 1.0}}}, {.options = {{2, 0.9}}, .current = 2, .stop_cost = 0.5}}};
  const MipSolution solution = solve_mip(program, kExact);
  EXPECT_EQ(solution.sizes, (MipSizes{{0, 1}, {2, 0}}));
  EXPECT_NEAR(solution.value, 1.8 + kHaste * 0.9, 1e-9);
}

TEST(MipProgram, AFinishedJobNeedsNothing) {
  // a needs one period on 1 unit. Then b, which could not use the rest, gets both units.
  const MipProgram program{
      .capacity = 2,
      .weights = {1, 1},
      .jobs = {{.options = {{1, 1.0}}}, {.options = {{1, 0.1}, {2, 0.2}}, .switch_cost = 0.01}}};
  const MipSolution solution = solve_mip(program, kExact);
  EXPECT_EQ(solution.sizes, (MipSizes{{1, 0}, {1, 2}}));
  EXPECT_NEAR(solution.value, 1.3 - 0.01 + kHaste * (1 + 0.1), 1e-9);
}

TEST(MipProgram, CapacityHoldsInEveryPeriod) {
  const MipProgram program{.capacity = 3,
                           .weights = {1, 0.9},
                           .jobs = {{.options = {{2, 0.2}}}, {.options = {{2, 0.3}}}}};
  EXPECT_EQ(solve_mip(program, kExact).sizes, (MipSizes{{0, 0}, {2, 2}}));
  EXPECT_FALSE(feasible(program, {{2, 0}, {2, 2}}));
  EXPECT_FALSE(feasible(program, {{0, 0}, {3, 2}}));  // not one of its sizes
  EXPECT_EQ(solve_mip({.capacity = 0, .weights = {1, 1}, .jobs = program.jobs}, kExact).sizes,
            (MipSizes{{0, 0}, {0, 0}}));
  EXPECT_TRUE(solve_mip({.capacity = 3, .weights = {1, 1}, .jobs = {}}, kExact).sizes.empty());
}

TEST(MipProgram, PriorityWins) {
  MipProgram program{.capacity = 1,
                     .weights = {1, 1},
                     .jobs = {{.options = {{1, 0.3}}}, {.options = {{1, 0.05}}, .value = 10}}};
  EXPECT_EQ(solve_mip(program, kExact).sizes, (MipSizes{{0, 0}, {1, 1}}));
}

// --- Against enumeration

MipProgram random_program(Random& random) {
  MipProgram program;
  program.capacity = random.between(0, 9);
  const int periods = random.between(1, 3);
  double weight = 1;
  for (int t = 0; t < periods; ++t, weight *= 0.5 + 0.5 * random.uniform()) {
    program.weights.push_back(weight);
  }
  const int jobs = random.between(1, 3);
  for (int j = 0; j < jobs; ++j) {
    MipJob job;
    const double base = 0.01 + (random.chance(0.3) ? 1.0 : 0.3) * random.uniform();
    for (int size = 1 << random.below(2); size <= 8; size *= 2) {
      // Neither concave nor always increasing.
      job.options.push_back({size, base * std::pow(size, 0.8) * (0.6 + 0.8 * random.uniform())});
      if (random.chance(0.3)) break;
    }
    if (random.chance(0.2)) job.options = {{3, base}};
    if (random.chance(0.6)) job.current = random.between(1, 8);
    if (random.chance(0.7)) job.switch_cost = 0.2 * random.uniform();
    job.stop_cost = random.chance(0.2) ? 100 : job.switch_cost;
    if (random.chance(0.2)) job.value = 10;
    if (random.chance(0.3)) job.run_value = random.uniform();
    program.jobs.push_back(std::move(job));
  }
  return program;
}

double best_by_enumeration(const MipProgram& program, MipSizes& sizes, std::size_t next) {
  const std::size_t periods = program.periods();
  if (next == program.jobs.size() * periods) {
    return feasible(program, sizes) ? objective(program, sizes) : -1e9;
  }
  int& size = sizes[next / periods][next % periods];
  size = 0;
  double best = best_by_enumeration(program, sizes, next + 1);
  for (const MipOption& option : program.jobs[next / periods].options) {
    size = option.size;
    best = std::max(best, best_by_enumeration(program, sizes, next + 1));
  }
  size = 0;
  return best;
}

TEST(MipProgram, MatchesEnumerationOnRandomPrograms) {
  int longer = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const MipProgram program = random_program(random);
    MipSizes sizes(program.jobs.size(), std::vector<int>(program.periods(), 0));
    const double best = best_by_enumeration(program, sizes, 0);
    const MipSolution solution = solve_mip(program, kExact);
    ASSERT_TRUE(feasible(program, solution.sizes));
    ASSERT_EQ(solution.outcome, MipOutcome::kOptimal) << solution.note;
    ASSERT_NEAR(solution.value, best, 1e-6 * std::max(1.0, std::abs(best)));
    ASSERT_NEAR(objective(program, solution.sizes), solution.value, 1e-9);
    ASSERT_GE(solution.bound, best - 1e-6 * std::max(1.0, std::abs(best)));
    const double myopic = objective(program, solve_period_by_period(program));
    ASSERT_LE(myopic, best + 1e-9);
    if (myopic < best - 1e-6) ++longer;
  }
  EXPECT_GT(longer, 10) << "the random programs do not show any benefit from planning ahead";
}

TEST(MipProgram, TheModelHasTheObjectiveOfTheProgram) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const MipProgram program = random_program(random);
    const MipModel model = build_model(program);
    const MipSizes sizes = solve_period_by_period(program);
    const std::vector<double> x = model.columns_of(program, sizes);
    EXPECT_EQ(model.sizes_of(program, x), sizes);
    double value = model.constant;
    for (std::size_t i = 0; i < x.size(); ++i) value += model.milp.columns[i].objective * x[i];
    EXPECT_NEAR(value, objective(program, sizes), 1e-9);
    for (const Milp::Row& row : model.milp.rows) {
      double sum = 0;
      for (const auto& term : row.terms) {
        sum += term.second * x[static_cast<std::size_t>(term.first)];
      }
      EXPECT_LE(sum, row.upper + 1e-9);
    }
  }
}

// --- If the solver does not finish

MipProgram large_program() {
  Random random(7);
  MipProgram program{.capacity = 64, .weights = {1, 0.9, 0.81, 0.73, 0.66, 0.59}, .jobs = {}};
  for (int j = 0; j < 40; ++j) {
    MipJob job;
    const double base = 0.02 + 0.2 * random.uniform();
    for (int size = 1; size <= 16; size *= 2) {
      job.options.push_back({size, base * std::pow(size, 0.6 + 0.35 * random.uniform())});
    }
    if (j < 16) job.current = 4;
    job.switch_cost = job.stop_cost = 0.3 * base;
    program.jobs.push_back(std::move(job));
  }
  return program;
}

TEST(MipProgram, NoTimeLeavesTheStart) {
  const MipProgram program = large_program();
  const MipSolution solution = solve_mip(program, {.seconds = 0});
  EXPECT_EQ(solution.outcome, MipOutcome::kIncumbent);
  EXPECT_TRUE(feasible(program, solution.sizes));
  EXPECT_GE(solution.value, objective(program, solve_period_by_period(program)));
  EXPECT_EQ(solution.note, "solver limit reached: using the best plan so far, gap unknown");
}

TEST(MipProgram, ALimitLeavesTheIncumbentAndItsGap) {
  const MipProgram program = large_program();
  const MipSolution solution = solve_mip(program, {.seconds = 60, .nodes = 1, .gap = 0});
  EXPECT_EQ(solution.outcome, MipOutcome::kIncumbent);
  EXPECT_TRUE(feasible(program, solution.sizes));
  EXPECT_GE(solution.value, objective(program, solve_period_by_period(program)) - 1e-9);
  EXPECT_GE(solution.bound, solution.value - 1e-6);
  EXPECT_LT(solution.gap(), 0.2);
  EXPECT_EQ(solution.note.find("solver limit reached: using the best plan so far, gap "), 0U)
      << solution.note;
}

TEST(MipProgram, AStartThatIsOptimalIsKept) {
  // The earlier plan is optimal. It is used even without a search.
  MipProgram program{
      .capacity = 2,
      .weights = {1, 0.9},
      .jobs = {{.options = {{1, 1.0}}, .planned = {0, 1}},
               {.options = {{2, 0.9}}, .current = 2, .stop_cost = 0.5, .planned = {2, 0}}}};
  EXPECT_EQ(solve_mip(program, {.seconds = 0}).sizes, (MipSizes{{0, 1}, {2, 0}}));
}

TEST(MipProgram, AFailingSolverMeansPeriodByPeriod) {
  const MipProgram program = large_program();
  const MilpSolver throws = [](const Milp&, std::span<const double>,
                               const MilpLimits&) -> MilpResult {
    throw std::runtime_error("out of luck");
  };
  const MilpSolver gives_up = [](const Milp&, std::span<const double>, const MilpLimits&) {
    return MilpResult{.status = MilpStatus::kFailed, .detail = "numbers too large"};
  };
  const MilpSolver lies = [](const Milp& milp, std::span<const double>, const MilpLimits&) {
    return MilpResult{.status = MilpStatus::kOptimal,
                      .value = 1e9,
                      .x = std::vector<double>(milp.columns.size(), 1.0)};
  };
  for (const auto& [solver, why] :
       std::vector<std::pair<MilpSolver, std::string>>{{throws, "out of luck"},
                                                       {gives_up, "numbers too large"},
                                                       {lies, "no usable solution"}}) {
    const MipSolution solution = solve_mip(program, kExact, solver);
    EXPECT_EQ(solution.outcome, MipOutcome::kFallback);
    EXPECT_EQ(solution.sizes, solve_period_by_period(program));
    EXPECT_EQ(solution.note, "solver failed (" + why + "): periods were planned one at a time");
  }
}

TEST(MipProgram, SolvesOnSeveralThreadsAtOnce) {
  std::vector<MipProgram> programs;
  std::vector<double> alone;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    programs.push_back(random_program(random));
    alone.push_back(solve_mip(programs.back(), kExact).value);
  }
  std::vector<std::vector<double>> values(4, std::vector<double>(programs.size()));
  std::vector<std::thread> threads;
  for (std::vector<double>& mine : values) {
    threads.emplace_back([&programs, &mine] {
      for (std::size_t i = 0; i < programs.size(); ++i) {
        mine[i] = solve_mip(programs[i], kExact).value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<double>& mine : values) EXPECT_EQ(mine, alone);
}

}  // namespace
}  // namespace rubato
