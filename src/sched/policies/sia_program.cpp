#include "sched/policies/sia_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "solve/allocate.h"

namespace rubato {

namespace {

double value_of(const SiaProgram& program, const std::vector<int>& choice) {
  double value = 0;
  for (std::size_t j = 0; j < choice.size(); ++j) {
    if (choice[j] >= 0) value += program.jobs[j][static_cast<std::size_t>(choice[j])].value;
  }
  return value;
}

// The only type with options; invalid when there is none or more than one.
DeviceTypeId only_type(const SiaProgram& program) {
  DeviceCounts options;
  for (const auto& job : program.jobs) {
    for (const SiaOption& option : job) ++options[option.type];
  }
  return options.single_type();
}

std::vector<int> solve_one_type(const SiaProgram& program, DeviceTypeId type) {
  std::vector<std::vector<Choice>> tables;
  for (const auto& job : program.jobs) {
    std::vector<Choice>& table = tables.emplace_back(1, Choice{0, 0.0});
    for (const SiaOption& option : job) table.push_back({option.devices, option.value});
  }
  std::vector<int> choice = allocate(tables, program.capacity[type]).choice;
  for (int& c : choice) --c;
  return choice;
}

// Choices by job, or nothing when that does not describe a solution.
std::vector<int> read_solution(const SiaProgram& program, const std::vector<double>& x) {
  std::vector<int> choice(program.jobs.size(), -1);
  DeviceCounts used;
  std::size_t column = 0;
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    for (std::size_t o = 0; o < program.jobs[j].size(); ++o, ++column) {
      if (x[column] < 0.5) continue;
      if (choice[j] >= 0) return {};
      choice[j] = static_cast<int>(o);
      used[program.jobs[j][o].type] += program.jobs[j][o].devices;
    }
  }
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (used.of[type] > program.capacity.of[type]) return {};
  }
  return choice;
}

Milp to_milp(const SiaProgram& program) {
  Milp milp;
  std::array<Milp::Row, kMaxDeviceTypes> types;
  for (const auto& job : program.jobs) {
    if (job.empty()) continue;
    Milp::Row one{.upper = 1, .terms = {}};
    for (const SiaOption& option : job) {
      const auto column = static_cast<int>(milp.columns.size());
      milp.columns.push_back({.objective = option.value, .lower = 0, .upper = 1, .integer = true});
      one.terms.emplace_back(column, 1.0);
      types[option.type.index()].terms.emplace_back(column, option.devices);
    }
    milp.rows.push_back(std::move(one));
  }
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (types[type].terms.empty()) continue;
    types[type].upper = program.capacity.of[type];
    milp.rows.push_back(std::move(types[type]));
  }
  return milp;
}

}  // namespace

SiaSolution solve_sia(const SiaProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver) {
  SiaSolution solution{.choice = program.current};
  if (const DeviceTypeId type = only_type(program); type.valid()) {
    solution.choice = solve_one_type(program, type);
    solution.value = value_of(program, solution.choice);
    return solution;
  }
  const Milp milp = to_milp(program);
  solution.value = value_of(program, solution.choice);
  if (milp.columns.empty()) return solution;
  std::vector<double> start;
  for (std::size_t j = 0; j < program.jobs.size(); ++j) {
    for (std::size_t o = 0; o < program.jobs[j].size(); ++o) {
      start.push_back(program.current[j] == static_cast<int>(o) ? 1.0 : 0.0);
    }
  }
  const MilpResult result = solver(milp, start, limits);
  solution.solver_s = result.seconds;
  std::vector<int> choice;
  if (!result.x.empty()) choice = read_solution(program, result.x);
  if (!choice.empty() && value_of(program, choice) > solution.value) {
    solution.choice = std::move(choice);
    solution.value = value_of(program, solution.choice);
  }
  if (result.status == MilpStatus::kLimit) {
    solution.note = fmt::format(
        "sia: the solver hit its limit; its best plan ({:.4g}, at most "
        "{:.4g} possible) is used",
        solution.value, result.bound);
  } else if (result.status != MilpStatus::kOptimal) {
    solution.note = "sia: the solver failed, the best known plan is used; " + result.detail;
  }
  return solution;
}

}  // namespace rubato
