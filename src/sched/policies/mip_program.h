// The multi-period program of the policy `mip`: pure data in, sizes out.
//
//   max  sum_j v_j [ sum_t w_t (q[j,t] + u_j sum_n x[j,t,n]) + bonus_j(n_1) - costs of changes ]
//   sum_n x[j,t,n] <= 1           at most one size per job and period, 0 is allowed
//   sum_jn n x[j,t,n] <= C        in every period
//   q[j,t] <= sum_n p_j(n) x[j,t,n],  sum_t q[j,t] <= 1
//   from n > 0 only to 0 or to n' with n/2 <= n' <= 2n; from 0 to any size, but a job that runs now
//   on n is never above n 2^t in period t = 1, 2, ...
//
// p_j(n) is the share of the job's remaining work that one period on n units completes. u_j is the
// value of not waiting. A change between two sizes above 0 costs `switch_cost`; stopping a job that
// runs now costs `stop_cost`. The bonus (kHaste x p(n) / max(1, largest p)) only decides between
// sizes at which a job ends within the first period anyway: the sooner, the better.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "solve/allocate.h"
#include "solve/milp.h"

namespace rubato {

struct MipOption {
  int size = 0;         // units of capacity, above 0
  double progress = 0;  // p(size), above 0; may exceed 1
};

struct MipJob {
  std::vector<MipOption> options;  // by ascending size
  int current = 0;                 // its size now; need not be one of the options
  double value = 1;                // v
  double run_value = 0;            // u
  double switch_cost = 0;
  double stop_cost = 0;
  std::vector<int> planned;  // sizes in an earlier plan, by period; may be empty
};

struct MipProgram {
  static constexpr double kHaste = 0.01;

  int capacity = 0;
  std::vector<double> weights;  // w_t, non-increasing; one per period, at least one
  std::vector<MipJob> jobs;

  std::size_t periods() const { return weights.size(); }
};

// sizes[j][t]
using MipSizes = std::vector<std::vector<int>>;

// Whether the sizes satisfy all constraints.
bool feasible(const MipProgram& program, const MipSizes& sizes);
// The objective at feasible sizes. q is filled greedily, which is optimal because w does not
// increase.
double objective(const MipProgram& program, const MipSizes& sizes);

enum class MipOutcome {
  kOptimal,
  kIncumbent,  // a limit was hit: best solution found so far
  kFallback,   // the solver failed: periods were solved exactly, one at a time
};

struct MipSolution {
  MipSizes sizes;  // always feasible
  double value = 0;
  double bound = 0;  // upper bound on the value of any sizes; infinite if unknown
  MipOutcome outcome = MipOutcome::kOptimal;
  Seconds solver_s = 0;
  std::string note;  // for people; empty if optimal

  // (bound - value) / |bound|; infinite if there is no bound.
  double gap() const;
};

// Solves the periods one after another, each exactly, with allocate(). Optimal for one period.
MipSizes solve_period_by_period(const MipProgram& program);

// The linear program of all periods and the mapping from its columns to sizes. Used by solve_mip;
// exposed for benchmarks and tests.
struct MipModel {
  Milp milp;
  double constant = 0;  // objective of the program = objective of the milp + constant

  std::vector<double> columns_of(const MipProgram& program, const MipSizes& sizes) const;
  MipSizes sizes_of(const MipProgram& program, std::span<const double> x) const;

  struct JobColumns {
    std::vector<std::vector<int>> x;  // [t][option]; -1: out of reach in that period
    std::vector<int> q;               // [t]; empty: the job cannot end within the plan
    std::vector<int> y;               // [t]; -1: no such column
  };
  std::vector<JobColumns> of;
};
MipModel build_model(const MipProgram& program);

// One period: solved exactly by allocate(). More: solved by the solver, starting from the best of
// the current sizes, the earlier plan and solve_period_by_period. A solver that throws, fails or
// returns an invalid solution leads to kFallback, never to an error.
MipSolution solve_mip(const MipProgram& program, const MilpLimits& limits,
                      const MilpSolver& solver = solve_with_cbc);

}  // namespace rubato
