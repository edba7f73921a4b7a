// Linear interpolation between scattered points in three dimensions, over their Delaunay
// triangulation.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace rubato {

using Point3 = std::array<double, 3>;

// Immutable after construction and safe to share between threads. Grids have many equally good
// triangulations; this one is Qhull's with the options SciPy passes ("Qbb Qc Qz Q12 Qt"), so that
// results agree with LinearNDInterpolator.
class ScatteredInterpolator {
 public:
  // values[i] belongs to points[i]. Fails when the points do not span three dimensions.
  static Result<ScatteredInterpolator> build(std::vector<Point3> points,
                                             std::vector<std::array<double, 2>> values);

  // Nothing outside the convex hull. Linear in the number of simplices (a few thousand): callers
  // memoise.
  std::optional<std::array<double, 2>> at(const Point3& x) const;

 private:
  struct Simplex {
    std::array<int, 4> corner;
    Point3 origin;  // the last corner
    std::array<Point3, 3>
        inverse;  // rows map (x - origin) to the first three barycentric coordinates
  };
  std::vector<Point3> points_;
  std::vector<std::array<double, 2>> values_;
  std::vector<Simplex> simplices_;
};

}  // namespace rubato
