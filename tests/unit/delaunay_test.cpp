#include "model/delaunay.h"

#include <gtest/gtest.h>

#include <iostream>

#include "base/random.h"

namespace rubato {
namespace {

using Values = std::vector<std::array<double, 2>>;

// Two linear functions, which linear interpolation must reproduce for any triangulation.
std::array<double, 2> linear(const Point3& p) {
  return {2 * p[0] + 3 * p[1] - p[2] + 1, 0.5 * p[2] - p[0] + 7};
}

std::vector<Point3> grid(int nodes, int devices, int batches) {
  std::vector<Point3> points;
  for (int a = 0; a < nodes; ++a) {
    for (int b = 0; b < devices; ++b) {
      for (int c = 0; c < batches; ++c) points.push_back({1.0 + a, 2.0 * b, 16.0 * c});
    }
  }
  return points;
}

ScatteredInterpolator build_linear(const std::vector<Point3>& points) {
  Values values;
  for (const Point3& point : points) values.push_back(linear(point));
  return std::move(*ScatteredInterpolator::build(points, values));
}

void expect_linear(const ScatteredInterpolator& interpolator, const Point3& x) {
  const auto value = interpolator.at(x);
  ASSERT_TRUE(value.has_value()) << x[0] << ", " << x[1] << ", " << x[2];
  EXPECT_NEAR((*value)[0], linear(x)[0], 1e-9) << x[0] << ", " << x[1] << ", " << x[2];
  EXPECT_NEAR((*value)[1], linear(x)[1], 1e-9) << x[0] << ", " << x[1] << ", " << x[2];
}

TEST(ScatteredInterpolator, ReproducesLinearDataOnAGrid) {
  constexpr std::uint64_t kSeed = 5;
  std::cout << "seed " << kSeed << '\n';
  Random random(kSeed);
  const ScatteredInterpolator cube = build_linear(grid(2, 2, 2));
  expect_linear(cube, {1.5, 1, 8});  // the centre: 3 + 3 - 8 + 1 = -1
  EXPECT_NEAR((*cube.at({1.5, 1, 8}))[0], -1, 1e-9);
  const ScatteredInterpolator large = build_linear(grid(3, 4, 5));
  for (int i = 0; i < 1000; ++i) {
    expect_linear(cube, {1 + random.uniform(), 2 * random.uniform(), 16 * random.uniform()});
    expect_linear(large, {1 + 2 * random.uniform(), 6 * random.uniform(), 64 * random.uniform()});
  }
}

TEST(ScatteredInterpolator, ReproducesLinearDataOnScatteredPoints) {
  Random random(6);
  std::vector<Point3> points = grid(2, 2, 2);
  for (int i = 0; i < 60; ++i) {
    points.push_back({1 + random.uniform(), 2 * random.uniform(), 16 * random.uniform()});
  }
  const ScatteredInterpolator interpolator = build_linear(points);
  for (int i = 0; i < 1000; ++i) {
    expect_linear(interpolator,
                  {1 + random.uniform(), 2 * random.uniform(), 16 * random.uniform()});
  }
}

TEST(ScatteredInterpolator, MeetsTheDataAtItsPoints) {
  Random random(7);
  const std::vector<Point3> points = grid(3, 3, 4);
  Values values;
  for (std::size_t i = 0; i < points.size(); ++i) {
    values.push_back({random.uniform(), random.uniform()});
  }
  const auto interpolator = ScatteredInterpolator::build(points, values);
  ASSERT_TRUE(interpolator.ok());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto value = interpolator->at(points[i]);
    ASSERT_TRUE(value.has_value()) << i;
    EXPECT_NEAR((*value)[0], values[i][0], 1e-9);
    EXPECT_NEAR((*value)[1], values[i][1], 1e-9);
  }
}

TEST(ScatteredInterpolator, WeighsTheCornersByDistance) {
  // A tetrahedron with its centre of gravity (1, 1, 1) raised by 10: half way from the corner
  // (4, 0, 0) to the centre the value is the mean of both.
  const std::vector<Point3> points{{0, 0, 0}, {4, 0, 0}, {0, 4, 0}, {0, 0, 4}, {1, 1, 1}};
  const auto interpolator =
      ScatteredInterpolator::build(points, {{0, 0}, {2, 0}, {0, 0}, {0, 0}, {10, 4}});
  ASSERT_TRUE(interpolator.ok());
  EXPECT_NEAR((*interpolator->at({2.5, 0.5, 0.5}))[0], 6, 1e-9);
  EXPECT_NEAR((*interpolator->at({2.5, 0.5, 0.5}))[1], 2, 1e-9);
  EXPECT_NEAR((*interpolator->at({2, 0, 0}))[0], 1, 1e-9);  // an edge of the hull
  EXPECT_FALSE(interpolator->at({3, 3, 3}).has_value());    // in the box, not in the hull
}

TEST(ScatteredInterpolator, SaysNothingOutsideTheHull) {
  const ScatteredInterpolator cube = build_linear(grid(2, 2, 2));
  for (const Point3& x : {Point3{0.9, 1, 8},
                          {2.1, 1, 8},
                          {1.5, -0.1, 8},
                          {1.5, 2.1, 8},
                          {1.5, 1, -1},
                          {1.5, 1, 17},
                          {100, 100, 100}}) {
    EXPECT_FALSE(cube.at(x).has_value()) << x[0] << ", " << x[1] << ", " << x[2];
  }
}

TEST(ScatteredInterpolator, WhereTheSearchStartsDoesNotMatterForLinearData) {
  Random random(8);
  const ScatteredInterpolator large = build_linear(grid(3, 4, 5));
  int from = 0;
  for (int i = 0; i < 500; ++i) {
    const Point3 x{1 + 2 * random.uniform(), 6 * random.uniform(), 64 * random.uniform()};
    const auto value = large.at(x, from);
    ASSERT_TRUE(value.has_value());
    EXPECT_NEAR((*value)[0], linear(x)[0], 1e-9);
  }
}

TEST(ScatteredInterpolator, RefusesPointsThatDoNotSpanASpace) {
  EXPECT_FALSE(ScatteredInterpolator::build({}, {}).ok());
  EXPECT_FALSE(ScatteredInterpolator::build({{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, Values(3)).ok());
  std::vector<Point3> plane;
  std::vector<Point3> line;
  const std::vector<Point3> same(10, Point3{1, 2, 3});
  for (int i = 0; i < 10; ++i) {
    plane.push_back({1.0 * i, 1.0 * (i % 3), 5});
    line.push_back({1.0 * i, 2.0 * i, 3.0 * i});
  }
  EXPECT_FALSE(ScatteredInterpolator::build(plane, Values(10)).ok());
  EXPECT_FALSE(ScatteredInterpolator::build(line, Values(10)).ok());
  EXPECT_FALSE(ScatteredInterpolator::build(same, Values(10)).ok());
}

}  // namespace
}  // namespace rubato
