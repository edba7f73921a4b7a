// The program that the policy `sia` solves at every decision: one configuration or none per job,
// within the devices of each type. A multiple-choice knapsack with a capacity per type.
#pragma once

#include <string>
#include <vector>

#include "sched/policy.h"
#include "solve/milp.h"

namespace rubato {

struct SiaOption {
  DeviceTypeId type;
  int devices = 0;   // at least 1
  double value = 0;  // against having nothing
};

struct SiaProgram {
  DeviceCounts capacity;
  std::vector<std::vector<SiaOption>> jobs;
  // Index of the option that the job has now, -1 for nothing: together they must fit.
  std::vector<int> current;
};

struct SiaSolution {
  std::vector<int> choice;  // index of the option, -1: nothing
  double value = 0;
  Seconds solver_s = 0;  // in CBC
  std::string note;      // empty unless a limit was hit or the solver failed
};

// Maximises the sum of the values. Exact unless a limit of CBC is hit, which then gives the best
// that was found, at least as good as `current`, and a note. Deterministic unless CBC's time runs
// out. Options of one type only: the exact knapsack of solve/allocate.h. Several types:
//  1. prices per device and type (200 subgradient steps) bound the value of every plan; plans are
//     made of what jobs would buy at these prices. Often the bound is reached.
//  2. what remains are the options that can be part of a better plan; most jobs have only one.
//     CBC decides the others, from the best plan known on.
// O(options) for a step of 1. and for each device that a plan has to save or to give out.
// `solver` replaces CBC in tests.
SiaSolution solve_sia(const SiaProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver = solve_with_cbc);

}  // namespace rubato
