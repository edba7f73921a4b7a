#include "model/delaunay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

extern "C" {
#include <libqhull_r/qhull_ra.h>
}

namespace rubato {

namespace {

// Owns one Qhull computation: its C state and the memory behind it.
class Qhull {
 public:
  Qhull() { qh_zero(&state_, nullptr); }
  ~Qhull() {
    qh_freeqhull(&state_, !qh_ALL);
    int left_bytes = 0;
    int left_blocks = 0;
    qh_memfreeshort(&state_, &left_bytes, &left_blocks);
  }
  Qhull(const Qhull&) = delete;
  Qhull& operator=(const Qhull&) = delete;

  bool triangulate(std::vector<Point3>& points) {
    std::array<char, 40> options{"qhull d Qbb Qc Qz Q12 Qt"};
    // Qhull prints its complaints; a failure is reported through the return value instead.
    struct Sink {
      std::FILE* file = std::fopen("/dev/null", "w");
      ~Sink() {
        if (file != nullptr) std::fclose(file);
      }
    } sink;
    return qh_new_qhull(&state_, 3, static_cast<int>(points.size()), points.data()->data(), False,
                        options.data(), nullptr, sink.file) == 0;
  }

  // The corners of every simplex of the triangulation.
  std::vector<std::array<int, 4>> simplices() {
    std::vector<std::array<int, 4>> found;
    qhT* qh = &state_;  // the name that Qhull's FORALL macros expect
    facetT* facet = nullptr;
    vertexT* vertex = nullptr;
    vertexT** vertexp = nullptr;
    FORALLfacets {
      if (facet->upperdelaunay) continue;
      std::array<int, 4> corners{};
      std::size_t count = 0;
      FOREACHvertex_(facet->vertices) {
        if (count < corners.size()) corners[count] = qh_pointid(qh, vertex->point);
        ++count;
      }
      if (count == corners.size()) found.push_back(corners);
    }
    return found;
  }

 private:
  qhT state_{};
};

Point3 minus(const Point3& a, const Point3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

Point3 cross(const Point3& a, const Point3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double dot(const Point3& a, const Point3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

}  // namespace

Result<ScatteredInterpolator> ScatteredInterpolator::build(
    std::vector<Point3> points, std::vector<std::array<double, 2>> values) {
  ScatteredInterpolator interpolator;
  interpolator.points_ = std::move(points);
  interpolator.values_ = std::move(values);
  const auto qhull = std::make_unique<Qhull>();
  if (interpolator.points_.size() < 5 || !qhull->triangulate(interpolator.points_)) {
    return invalid_input("the measured points do not span nodes, devices and batch sizes");
  }
  for (const std::array<int, 4>& corner : qhull->simplices()) {
    const auto at = [&](std::size_t i) {
      return interpolator.points_[static_cast<std::size_t>(corner[i])];
    };
    const Point3 origin = at(3);
    const Point3 a = minus(at(0), origin);
    const Point3 b = minus(at(1), origin);
    const Point3 c = minus(at(2), origin);
    const double volume = dot(a, cross(b, c));
    if (std::abs(volume) < 1e-12) continue;  // a flat sliver holds nothing
    std::array<Point3, 3> inverse{cross(b, c), cross(c, a), cross(a, b)};
    for (Point3& row : inverse) {
      for (double& entry : row) entry /= volume;
    }
    interpolator.simplices_.push_back({.corner = corner, .origin = origin, .inverse = inverse});
  }
  return interpolator;
}

std::optional<std::array<double, 2>> ScatteredInterpolator::at(const Point3& x) const {
  constexpr double kSlack = 1e-9;  // a point on a face belongs to both neighbours
  for (const Simplex& simplex : simplices_) {
    const Point3 offset = minus(x, simplex.origin);
    std::array<double, 4> weight{};
    for (std::size_t i = 0; i < 3; ++i) weight[i] = dot(simplex.inverse[i], offset);
    weight[3] = 1.0 - weight[0] - weight[1] - weight[2];
    if (*std::min_element(weight.begin(), weight.end()) < -kSlack) continue;
    std::array<double, 2> value{};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& corner = values_[static_cast<std::size_t>(simplex.corner[i])];
      value[0] += weight[i] * corner[0];
      value[1] += weight[i] * corner[1];
    }
    return value;
  }
  return std::nullopt;
}

}  // namespace rubato
