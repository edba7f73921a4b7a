#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/bounded_minimize.h"

namespace rubato {
namespace {

constexpr double kFar = 1e3;

// (x - 3)^2 + 10 (y + 1)^2
BoundedProblem bowl(std::vector<double> lower, std::vector<double> upper) {
  return {.evaluate =
              [](std::span<const double> x, std::span<double> g) {
                g[0] = 2 * (x[0] - 3);
                g[1] = 20 * (x[1] + 1);
                return (x[0] - 3) * (x[0] - 3) + 10 * (x[1] + 1) * (x[1] + 1);
              },
          .lower = std::move(lower),
          .upper = std::move(upper)};
}

// (1 - x)^2 + 100 (y - x^2)^2, minimal at (1, 1)
BoundedProblem rosenbrock(std::vector<double> lower, std::vector<double> upper) {
  return {.evaluate =
              [](std::span<const double> x, std::span<double> g) {
                const double bend = x[1] - x[0] * x[0];
                g[0] = -2 * (1 - x[0]) - 400 * x[0] * bend;
                g[1] = 200 * bend;
                return (1 - x[0]) * (1 - x[0]) + 100 * bend * bend;
              },
          .lower = std::move(lower),
          .upper = std::move(upper),
          .max_iterations = 1000,
          .tolerance = 1e-14};
}

TEST(Minimize, FindsTheBottomOfABowl) {
  const auto x = minimize(bowl({-kFar, -kFar}, {kFar, kFar}), {-50, 80});
  EXPECT_NEAR(x[0], 3, 1e-4);
  EXPECT_NEAR(x[1], -1, 1e-4);
}

TEST(Minimize, StopsAtABoundThatIsInTheWay) {
  // y must be at least 0.5 and x at most 2: both bounds are active.
  const auto corner = minimize(bowl({-kFar, 0.5}, {2, kFar}), {-5, 5});
  EXPECT_EQ(corner[0], 2);
  EXPECT_EQ(corner[1], 0.5);
  // Only y is at its bound.
  const auto edge = minimize(bowl({-kFar, 0.5}, {kFar, kFar}), {-5, 5});
  EXPECT_NEAR(edge[0], 3, 1e-4);
  EXPECT_EQ(edge[1], 0.5);
}

TEST(Minimize, LeavesABoundThatOnlyTheStartTouches) {
  const auto x = minimize(bowl({0, -5}, {10, 5}), {0, 5});
  EXPECT_NEAR(x[0], 3, 1e-4);
  EXPECT_NEAR(x[1], -1, 1e-4);
}

TEST(Minimize, FollowsTheBentValley) {
  for (const auto& start : {std::vector<double>{-1.2, 1}, {0, 0}, {2, -1}, {-2, 2}}) {
    const auto x = minimize(rosenbrock({-2, -2}, {2, 2}), start);
    EXPECT_NEAR(x[0], 1, 1e-3) << "from " << start[0] << ", " << start[1];
    EXPECT_NEAR(x[1], 1, 1e-3) << "from " << start[0] << ", " << start[1];
  }
}

TEST(Minimize, FindsTheBestPointOfABoxWithoutTheMinimum) {
  // With x at most 0.5, the best y is x^2 = 0.25.
  const auto x = minimize(rosenbrock({-2, -2}, {0.5, 2}), {-1.2, 1});
  EXPECT_NEAR(x[0], 0.5, 1e-6);
  EXPECT_NEAR(x[1], 0.25, 1e-4);
}

TEST(Minimize, FixedVariablesStay) {
  const auto x = minimize(bowl({-kFar, 7}, {kFar, 7}), {0, 7});
  EXPECT_NEAR(x[0], 3, 1e-4);
  EXPECT_EQ(x[1], 7);
  EXPECT_EQ(minimize(bowl({1, 2}, {1, 2}), {1, 2}), (std::vector<double>{1, 2}));
}

TEST(Minimize, AStartOutsideIsMovedInside) {
  const auto x = minimize(bowl({4, 0}, {5, 1}), {-100, 100});
  EXPECT_EQ(x, (std::vector<double>{4, 0}));
}

TEST(Minimize, AFunctionWithoutSlopeKeepsTheStart) {
  const BoundedProblem flat{.evaluate =
                                [](std::span<const double>, std::span<double> g) {
                                  g[0] = 0;
                                  return 1.0;
                                },
                            .lower = {-1},
                            .upper = {1}};
  EXPECT_EQ(minimize(flat, {0.25}), std::vector<double>{0.25});
}

TEST(Minimize, AFunctionThatIsNowhereANumberKeepsTheStart) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const BoundedProblem broken{.evaluate =
                                  [](std::span<const double>, std::span<double> g) {
                                    g[0] = kNan;
                                    return kNan;
                                  },
                              .lower = {-1},
                              .upper = {1}};
  EXPECT_EQ(minimize(broken, {0.25}), std::vector<double>{0.25});
}

TEST(Minimize, IsDeterministic) {
  const auto once = minimize(rosenbrock({-2, -2}, {2, 2}), {-1.2, 1});
  EXPECT_EQ(once, minimize(rosenbrock({-2, -2}, {2, 2}), {-1.2, 1}));
}

}  // namespace
}  // namespace rubato
