// Exact division of one capacity among jobs: a multiple-choice knapsack.
#pragma once

#include <span>
#include <vector>

namespace rubato {

// A job may take `size` units of capacity and is then worth `value`.
struct Choice {
  int size = 0;
  double value = 0;
};

// What was found. `choice[j]` is the index into tables[j].
struct Division {
  bool feasible = false;
  double value = 0;
  std::vector<int> choice;
};

// Picks exactly one choice per table such that the sizes sum to at most `capacity` and the values
// sum to the maximum. A job that may go without has a choice of size 0. Tables may be in any order,
// non-concave and non-monotone; sizes must not be negative, values must be finite (negative ones
// are fine). Not feasible when even the smallest sizes do not fit. Exact: no other division has a
// larger value (up to rounding of the sum). Deterministic.
Division allocate(std::span<const std::vector<Choice>> tables, int capacity);

}  // namespace rubato
