// Exact division of one capacity among jobs: a multiple-choice knapsack.
//
// How it is solved (allocate.cpp has the proofs):
//  1. Choices that are no better than a smaller one are dropped. If the best choices of all jobs
//     fit together, they are the answer.
//  2. Greedy on the concave majorants of the tables, by gain per unit. This is exact whenever it
//     fills the capacity without a remainder. Concave tables with equal steps always end here: the
//     sizes of all tables rise by the same step, and no step gains more than the one before it
//     (after 1).
//  3. Otherwise, the gain per unit at which the greedy stopped becomes the price of the capacity.
//     It gives every choice a loss and every division a distance to an upper bound. A dynamic
//     program does the rest. It considers the jobs whose choices lose less than the best known
//     division, in a window of capacity that narrows as better divisions are found. If nothing can
//     be excluded, it is the plain dynamic program.
//
// Complexity, with N choices in total, J jobs and C units: O(N) for 1 and 2 (plus sorting tables
// that are not in order of size); O(J log J + N C) time at worst for 3, with O(C sqrt(J)) memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rubato {

// A job that takes `size` units of capacity is worth `value`.
struct Choice {
  int size = 0;
  double value = 0;
};

// What proves that a division is optimal.
enum class DivisionProof {
  kNone,      // not feasible
  kAllFit,    // every job has its best choice
  kGreedy,    // the greedy left no remainder: the value equals the upper bound
  kRounding,  // the value differs from the upper bound by less than the rounding of the sum
  kProgram,   // the dynamic program found no better division
};

// The result. `choice[j]` is an index into tables[j].
struct Division {
  bool feasible = false;
  double value = 0;
  std::vector<int> choice;

  DivisionProof proof = DivisionProof::kNone;
  double bound = 0;        // upper bound on any division (the linear relaxation); at least `value`
  double unit_price = 0;   // value of one more unit in the relaxation; 0 if all fit
  int rows = 0;            // jobs that the dynamic program considered
  std::int64_t cells = 0;  // units of capacity x choices that it considered
};

// Picks exactly one choice per table such that the sizes sum to at most `capacity` and the sum of
// the values is maximal. A job that may get nothing has a choice of size 0. Tables may be unsorted,
// non-concave and non-monotone. Sizes must not be negative; values must be finite and may be
// negative. Not feasible if even the smallest sizes do not fit. Exact: no other division has a
// larger value (up to rounding of the sum). Deterministic: which of several best divisions is
// returned depends only on the arguments.
Division allocate(std::span<const std::vector<Choice>> tables, int capacity);

}  // namespace rubato
