#include "model/delaunay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

extern "C" {
#include <libqhull_r/qhull_ra.h>
}

namespace rubato {

namespace {

// One Qhull computation: its C state and the memory behind it.
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
    // Qhull prints its errors; a failure is reported through the return value instead.
    struct Sink {
      std::FILE* file = std::fopen("/dev/null", "w");
      ~Sink() {
        if (file != nullptr) std::fclose(file);
      }
    } sink;
    return qh_new_qhull(&state_, 3, static_cast<int>(points.size()), points.data()->data(), False,
                        options.data(), nullptr, sink.file) == 0;
  }

  struct Facet {
    std::array<int, 4> corner{};
    std::array<int, 4> neighbour{};
    std::array<double, 5> plane{};
  };

  // The simplices of the triangulation, in Qhull's order.
  std::vector<Facet> facets() {
    qhT* qh = &state_;  // the name that Qhull's FORALL macros expect
    facetT* facet = nullptr;
    std::vector<int> index_of_id;
    int count = 0;
    FORALLfacets {
      if (facet->upperdelaunay) continue;
      if (facet->id >= index_of_id.size()) index_of_id.resize(facet->id + 1, -1);
      index_of_id[facet->id] = count++;
    }
    std::vector<Facet> found;
    FORALLfacets {
      if (facet->upperdelaunay) continue;
      Facet& entry = found.emplace_back();
      for (std::size_t i = 0; i < 4; ++i) {
        const auto* vertex = static_cast<const vertexT*>(facet->vertices->e[i].p);
        const auto* next = static_cast<const facetT*>(facet->neighbors->e[i].p);
        entry.corner[i] = qh_pointid(qh, vertex->point);
        entry.neighbour[i] = next->id < index_of_id.size() ? index_of_id[next->id] : -1;
        entry.plane[i] = facet->normal[i];
      }
      entry.plane[4] = facet->offset;
    }
    return found;
  }

  // How option Qbb rescaled the paraboloid coordinate.
  double lift_scale() const { return (state_.last_newhigh) / (state_.last_high - state_.last_low); }
  double lift_shift() const { return -state_.last_low * lift_scale(); }

 private:
  qhT state_{};
};

constexpr double kSlack = 100 * std::numeric_limits<double>::epsilon();
const double kBroadSlack = std::sqrt(std::numeric_limits<double>::epsilon());

Point3 minus(const Point3& a, const Point3& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

Point3 cross(const Point3& a, const Point3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double dot(const Point3& a, const Point3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

}  // namespace

Result<ScatteredInterpolator> ScatteredInterpolator::build(
    std::vector<Point3> points, std::vector<std::array<double, 2>> values) {
  ScatteredInterpolator built;
  built.points_ = std::move(points);
  built.values_ = std::move(values);
  const auto qhull = std::make_unique<Qhull>();
  if (built.points_.size() < 5 || !qhull->triangulate(built.points_)) {
    return invalid_input("the measured points do not span nodes, devices and batch sizes");
  }
  built.lift_scale_ = qhull->lift_scale();
  built.lift_shift_ = qhull->lift_shift();
  built.low_ = built.high_ = built.points_.front();
  for (const Point3& point : built.points_) {
    for (std::size_t i = 0; i < 3; ++i) {
      built.low_[i] = std::min(built.low_[i], point[i]);
      built.high_[i] = std::max(built.high_[i], point[i]);
    }
  }
  for (const Qhull::Facet& facet : qhull->facets()) {
    const auto corner = [&](std::size_t i) {
      return built.points_[static_cast<std::size_t>(facet.corner[i])];
    };
    Simplex simplex{.corner = facet.corner, .neighbour = facet.neighbour, .plane = facet.plane};
    simplex.origin = corner(3);
    const Point3 a = minus(corner(0), simplex.origin);
    const Point3 b = minus(corner(1), simplex.origin);
    const Point3 c = minus(corner(2), simplex.origin);
    const double volume = dot(a, cross(b, c));
    const double size = std::sqrt(dot(a, a) * dot(b, b) * dot(c, c));
    simplex.flat = std::abs(volume) < 1e-12 * size;
    simplex.inverse = {cross(b, c), cross(c, a), cross(a, b)};
    for (Point3& row : simplex.inverse) {
      for (double& entry : row) entry /= volume;
    }
    built.simplices_.push_back(simplex);
  }
  return built;
}

ScatteredInterpolator::Weights ScatteredInterpolator::weights_in(const Simplex& simplex,
                                                                 const Point3& x) {
  const Point3 offset = minus(x, simplex.origin);
  Weights weights{};
  for (std::size_t i = 0; i < 3; ++i) weights[i] = dot(simplex.inverse[i], offset);
  weights[3] = 1.0 - weights[0] - weights[1] - weights[2];
  return weights;
}

double ScatteredInterpolator::height_over(const Simplex& simplex, const Point3& x) const {
  const double lifted = dot(x, x) * lift_scale_ + lift_shift_;
  return simplex.plane[0] * x[0] + simplex.plane[1] * x[1] + simplex.plane[2] * x[2] +
         simplex.plane[3] * lifted + simplex.plane[4];
}

// Moves from a simplex to higher neighbours until the lifted point is above a facet or at a local
// maximum.
int ScatteredInterpolator::climb(int from, const Point3& x) const {
  int current = from;
  double best = height_over(simplices_[static_cast<std::size_t>(current)], x);
  for (bool moved = true; moved && best <= 0;) {
    moved = false;
    // `current` may change during the scan. The scan then continues with the next neighbour of the
    // new simplex, as in SciPy.
    for (std::size_t k = 0; k < 4; ++k) {
      const int next = simplices_[static_cast<std::size_t>(current)].neighbour[k];
      if (next < 0) continue;
      const double height = height_over(simplices_[static_cast<std::size_t>(next)], x);
      if (height > best + kSlack * (1 + std::abs(best))) {
        best = height;
        current = next;
        moved = true;
      }
    }
  }
  return current;
}

// Crosses faces with a negative weight until there is none. Nothing if the point is outside. `from`
// moves along.
std::optional<int> ScatteredInterpolator::walk(int& from, const Point3& x) const {
  const std::size_t most_steps = 1 + simplices_.size() / 4;
  for (std::size_t step = 0; step < most_steps; ++step) {
    const Simplex& simplex = simplices_[static_cast<std::size_t>(from)];
    if (simplex.flat) return search_all(x);
    const Weights weights = weights_in(simplex, x);
    const auto outward =
        std::find_if(weights.begin(), weights.end(), [](double w) { return w < -kSlack; });
    if (outward == weights.end()) return from;
    const int next = simplex.neighbour[static_cast<std::size_t>(outward - weights.begin())];
    if (next < 0) return std::nullopt;
    from = next;
  }
  return search_all(x);
}

// The first simplex that contains the point. A flat simplex contains nothing, but one of its
// neighbours may contain the point, with some tolerance across the face that they share.
std::optional<int> ScatteredInterpolator::search_all(const Point3& x) const {
  const auto holds = [&](const Simplex& simplex, int lenient_towards) {
    const Weights weights = weights_in(simplex, x);
    for (std::size_t k = 0; k < 4; ++k) {
      const bool lenient = lenient_towards >= 0 && simplex.neighbour[k] == lenient_towards;
      if (weights[k] < (lenient ? -kBroadSlack : -kSlack) || weights[k] > 1 + kSlack) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < simplices_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (!simplices_[i].flat) {
      if (holds(simplices_[i], -1)) return index;
      continue;
    }
    for (const int next : simplices_[i].neighbour) {
      if (next < 0 || simplices_[static_cast<std::size_t>(next)].flat) continue;
      if (holds(simplices_[static_cast<std::size_t>(next)], index)) return next;
    }
  }
  return std::nullopt;
}

std::optional<std::array<double, 2>> ScatteredInterpolator::at(const Point3& x, int& from) const {
  for (std::size_t i = 0; i < 3; ++i) {
    if (x[i] < low_[i] || x[i] > high_[i]) return std::nullopt;
  }
  from = climb(from, x);
  const std::optional<int> found = walk(from, x);
  if (!found) return std::nullopt;
  from = *found;
  const Simplex& simplex = simplices_[static_cast<std::size_t>(*found)];
  const Weights weights = weights_in(simplex, x);
  std::array<double, 2> value{};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& corner = values_[static_cast<std::size_t>(simplex.corner[i])];
    value[0] += weights[i] * corner[0];
    value[1] += weights[i] * corner[1];
  }
  return value;
}

}  // namespace rubato
