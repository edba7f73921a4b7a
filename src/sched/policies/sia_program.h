// The program that the policy `sia` solves at every decision: at most one configuration per job,
// within the devices of each type. A multiple-choice knapsack with one capacity per type.
#pragma once

#include <string>
#include <vector>

#include "sched/policy.h"
#include "solve/milp.h"

namespace rubato {

struct SiaOption {
  DeviceTypeId type;
  int devices = 0;   // at least 1
  double value = 0;  // relative to having nothing
};

struct SiaProgram {
  DeviceCounts capacity;
  std::vector<std::vector<SiaOption>> jobs;
  // Index of each job's current option, -1 for nothing. Together these must fit.
  std::vector<int> current;
};

struct SiaSolution {
  std::vector<int> choice;  // index of the option; -1: nothing
  double value = 0;
  Seconds solver_s = 0;  // in CBC
  std::string note;      // empty unless a limit was hit or the solver failed
};

// Maximises the sum of the values. Exact unless CBC hits a limit. Then the solution is the best one
// found, at least as good as `current`, and has a note. Deterministic unless CBC runs out of time.
// If all options are of one type, this is the exact knapsack of solve/allocate.h. Several types:
//  1. Prices per device and type (200 subgradient steps) bound the value of every plan. Plans are
//     built from what jobs would buy at these prices. Often the bound is reached.
//  2. What remains are the options that can be part of a better plan; most jobs have only one. CBC
//     decides the others, starting from the best known plan.
// O(options) for a step of 1, and for each device that a plan has to save or hand out.
// `solver` replaces CBC in tests.
SiaSolution solve_sia(const SiaProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver = solve_with_cbc);

}  // namespace rubato
