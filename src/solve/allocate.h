// Exact division of one capacity among jobs: a multiple-choice knapsack.
//
// How it is solved (allocate.cpp has the arguments):
//  1. Choices that are no better than a smaller one are dropped. When the best choices of all jobs
//     fit together, they are the answer.
//  2. Greedy on the concave majorants of the tables, by gain per unit. It is exact whenever it
//     fills the capacity without a remainder. Concave tables with equal steps always end here: the
//     sizes of each table rise by the same step, common to all tables, and no step gains more than
//     the one before it (after 1.).
//  3. Otherwise the gain per unit at which the greedy stopped prices the capacity, which gives
//     every choice a loss and every division a distance to an upper bound. A dynamic program over
//     the jobs whose choices lose less than the best division known, in a window of capacity that
//     narrows as better divisions are found, does the rest. When nothing can be excluded it is the
//     plain dynamic program.
//
// Complexity, with N choices in all, J jobs and C units: O(N) for 1. and 2. (plus sorting the
// tables that are not in order of size), O(J log J + N C) time at worst for 3., with O(C sqrt(J))
// memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rubato {

// A job may take `size` units of capacity and is then worth `value`.
struct Choice {
  int size = 0;
  double value = 0;
};

// What proved a division to be the best.
enum class DivisionProof {
  kNone,      // not feasible
  kAllFit,    // every job has its best choice
  kGreedy,    // the greedy left no remainder: the value is the upper bound
  kRounding,  // the value differs from the upper bound by less than the rounding of the sum
  kProgram,   // the dynamic program found no better one
};

// What was found. `choice[j]` is the index into tables[j].
struct Division {
  bool feasible = false;
  double value = 0;
  std::vector<int> choice;

  DivisionProof proof = DivisionProof::kNone;
  double bound = 0;        // no division is worth more (the linear relaxation); at least `value`
  double unit_price = 0;   // what a further unit is worth in the relaxation; 0 if all fit
  int rows = 0;            // jobs that the dynamic program looked at
  std::int64_t cells = 0;  // units of capacity x choices that it looked at
};

// Picks exactly one choice per table such that the sizes sum to at most `capacity` and the values
// sum to the maximum. A job that may go without has a choice of size 0. Tables may be in any order,
// non-concave and non-monotone; sizes must not be negative, values must be finite (negative ones
// are fine). Not feasible when even the smallest sizes do not fit. Exact: no other division has a
// larger value (up to rounding of the sum). Deterministic: which one of several best divisions is
// returned depends on the arguments only.
Division allocate(std::span<const std::vector<Choice>> tables, int capacity);

}  // namespace rubato
