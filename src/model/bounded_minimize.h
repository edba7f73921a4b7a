// Minimises a smooth function of a few variables inside a box: BFGS on the variables that are not
// at a bound, with a projected backtracking line search.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace rubato {

struct BoundedProblem {
  // Returns the value and writes the gradient.
  std::function<double(std::span<const double> x, std::span<double> gradient)> evaluate;
  std::vector<double> lower;
  std::vector<double> upper;  // lower == upper fixes a variable
  int max_iterations = 200;
  double tolerance = 1e-9;  // stop if a step improves the value by less than this, relatively
};

// Starts from `start` (clamped into the box) and returns the best point found. Deterministic.
std::vector<double> minimize(const BoundedProblem& problem, std::vector<double> start);

}  // namespace rubato
