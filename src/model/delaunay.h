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
// triangulations; this is Qhull's, with the options SciPy passes ("Qbb Qc Qz Q12 Qt"). Where Qhull
// merged nearly cospherical points, its simplices may overlap slightly, so the result also depends
// on how a simplex is found. We search as SciPy does: first uphill by the distance to the lifted
// facets, then along the barycentric coordinates. Results therefore agree with
// LinearNDInterpolator.
class ScatteredInterpolator {
 public:
  // values[i] belongs to points[i]. Fails if the points do not span three dimensions.
  static Result<ScatteredInterpolator> build(std::vector<Point3> points,
                                             std::vector<std::array<double, 2>> values);

  // Nothing outside the convex hull. Walks over about the cube root of the number of simplices. The
  // walk starts at simplex `from`, which is set to where it ended (as SciPy does within one call
  // for many points).
  std::optional<std::array<double, 2>> at(const Point3& x, int& from) const;
  std::optional<std::array<double, 2>> at(const Point3& x) const {
    int from = 0;
    return at(x, from);
  }

 private:
  struct Simplex {
    std::array<int, 4> corner{};
    std::array<int, 4> neighbour{};  // opposite each corner; -1: outside
    std::array<double, 5> plane{};   // normal and offset of the facet above it on the paraboloid
    Point3 origin{};                 // the last corner
    std::array<Point3, 3>
        inverse{};      // rows map (x - origin) to the first three barycentric coordinates
    bool flat = false;  // zero volume: `inverse` is unusable
  };
  using Weights = std::array<double, 4>;

  static Weights weights_in(const Simplex& simplex, const Point3& x);
  double height_over(const Simplex& simplex, const Point3& x) const;
  int climb(int from, const Point3& x) const;
  std::optional<int> walk(int& from, const Point3& x) const;
  std::optional<int> search_all(const Point3& x) const;

  std::vector<Point3> points_;
  std::vector<std::array<double, 2>> values_;
  std::vector<Simplex> simplices_;
  Point3 low_{}, high_{};                   // bounding box
  double lift_scale_ = 1, lift_shift_ = 0;  // of the paraboloid coordinate
};

}  // namespace rubato
