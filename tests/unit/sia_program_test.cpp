#include "sched/policies/sia_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "base/random.h"

namespace rubato {
namespace {

constexpr MilpLimits kExact{.seconds = 60, .gap = 0};

SiaProgram random_program(Random& random, int types, int jobs) {
  SiaProgram program;
  for (int t = 0; t < types; ++t) {
    program.capacity.of[static_cast<std::size_t>(t)] = random.between(0, 9);
  }
  for (int j = 0; j < jobs; ++j) {
    std::vector<SiaOption>& options = program.jobs.emplace_back();
    const int count = random.between(0, 4);
    for (int o = 0; o < count; ++o) {
      const DeviceTypeId type(static_cast<std::size_t>(random.between(0, types - 1)));
      options.push_back({type, random.between(1, 8), 0.05 + random.uniform()});
    }
    program.current.push_back(-1);
  }
  return program;
}

double brute_force(const SiaProgram& program, std::size_t job, DeviceCounts left) {
  if (job == program.jobs.size()) return 0;
  double best = brute_force(program, job + 1, left);
  for (const SiaOption& option : program.jobs[job]) {
    if (option.devices > left[option.type]) continue;
    left[option.type] -= option.devices;
    best = std::max(best, option.value + brute_force(program, job + 1, left));
    left[option.type] += option.devices;
  }
  return best;
}

// The value of the choices; -1 if they do not fit.
double checked_value(const SiaProgram& program, const std::vector<int>& choice) {
  DeviceCounts left = program.capacity;
  double value = 0;
  for (std::size_t j = 0; j < choice.size(); ++j) {
    if (choice[j] < 0) continue;
    const SiaOption& option = program.jobs[j].at(static_cast<std::size_t>(choice[j]));
    left[option.type] -= option.devices;
    if (left[option.type] < 0) return -1;
    value += option.value;
  }
  return value;
}

TEST(SiaProgram, IsExactOnAnyNumberOfTypes) {
  Random random(7);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const SiaProgram program = random_program(random, 1 + round % 3, random.between(0, 6));
    const SiaSolution solution = solve_sia(program, kExact);
    ASSERT_EQ(solution.choice.size(), program.jobs.size());
    ASSERT_EQ(solution.note, "");
    ASSERT_NEAR(solution.value, brute_force(program, 0, program.capacity), 1e-9);
    ASSERT_NEAR(solution.value, checked_value(program, solution.choice), 1e-12);
  }
}

// Two types. Half of the second job would fit beside the first, so prices alone prove nothing.
SiaProgram two_types() {
  const DeviceTypeId one(std::size_t{0});
  const DeviceTypeId two(std::size_t{1});
  SiaProgram program;
  program.capacity[one] = 3;
  program.capacity[two] = 1;
  program.jobs = {{{one, 2, 1.0}}, {{one, 2, 0.9}, {two, 1, 0.3}}};
  program.current = {-1, 0};
  return program;
}

TEST(SiaProgram, UsesTheBestKnownPlanWhenALimitIsHitAndSaysSo) {
  const SiaProgram program = two_types();
  EXPECT_EQ(solve_sia(program, kExact).choice, (std::vector<int>{0, 1}));
  const SiaSolution limited = solve_sia(program, {.seconds = 0});
  EXPECT_GE(checked_value(program, limited.choice), 0.9);
  EXPECT_NE(limited.note.find("limit"), std::string::npos) << limited.note;
}

TEST(SiaProgram, SurvivesASolverThatFailsOrLies) {
  const SiaProgram program = two_types();
  const auto failing = [](const Milp&, std::span<const double>, const MilpLimits&) {
    return MilpResult{.status = MilpStatus::kFailed, .detail = "no memory"};
  };
  const SiaSolution failed = solve_sia(program, kExact, failing);
  EXPECT_GE(checked_value(program, failed.choice), 0.9);
  EXPECT_NE(failed.note.find("no memory"), std::string::npos) << failed.note;

  const auto throwing = [](const Milp&, std::span<const double>, const MilpLimits&) -> MilpResult {
    throw std::runtime_error("out of luck");
  };
  const SiaSolution thrown = solve_sia(program, kExact, throwing);
  EXPECT_EQ(thrown.choice, failed.choice);
  EXPECT_NE(thrown.note.find("out of luck"), std::string::npos) << thrown.note;

  const auto lying = [](const Milp& milp, std::span<const double>, const MilpLimits&) {
    return MilpResult{.status = MilpStatus::kOptimal,
                      .value = 10,
                      .x = std::vector<double>(milp.columns.size(), 1.0)};
  };
  EXPECT_GE(checked_value(program, solve_sia(program, kExact, lying).choice), 0.9);
}

// Programs like those of the policy: sizes are powers of two, values 1.1 - u^-0.5. Compared with
// CBC on the whole program, without prices.
TEST(SiaProgram, LargeProgramsMatchTheWholeProgram) {
  Random random(11);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    SiaProgram program;
    program.capacity.of = {24, 24, 16};
    Milp milp;
    std::array<Milp::Row, 3> types;
    for (std::size_t t = 0; t < types.size(); ++t) types[t].upper = program.capacity.of[t];
    const int jobs = random.between(5, 40);
    for (int j = 0; j < jobs; ++j) {
      Milp::Row one{.upper = 1, .terms = {}};
      program.jobs.emplace_back();
      program.current.push_back(-1);
      const double scaling = 0.3 + 0.7 * random.uniform();
      for (std::size_t t = 0; t < types.size(); ++t) {
        const double speed = t == 0 ? 1 : 1 + 5 * random.uniform();
        for (int devices = 1; devices <= 16; devices *= 2) {
          const double value = 1.1 - std::pow(speed * std::pow(devices, scaling), -0.5);
          program.jobs.back().push_back({DeviceTypeId(t), devices, value});
          const auto column = static_cast<int>(milp.columns.size());
          milp.columns.push_back({.objective = value, .integer = true});
          one.terms.emplace_back(column, 1.0);
          types[t].terms.emplace_back(column, devices);
        }
      }
      milp.rows.push_back(one);
    }
    milp.rows.insert(milp.rows.end(), types.begin(), types.end());
    const MilpResult whole = solve_with_cbc(milp, {}, kExact);
    ASSERT_EQ(whole.status, MilpStatus::kOptimal);
    const SiaSolution solution = solve_sia(program, kExact);
    ASSERT_EQ(solution.note, "");
    ASSERT_NEAR(solution.value, whole.value, 1e-7);
    ASSERT_NEAR(solution.value, checked_value(program, solution.choice), 1e-12);
  }
}

}  // namespace
}  // namespace rubato
