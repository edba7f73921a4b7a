#include "model/bounded_minimize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rubato {

namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The inverse Hessian estimate, restricted to the free variables by zero rows and columns.
class InverseHessian {
 public:
  explicit InverseHessian(std::size_t n) : n_(n), h_(n * n), work_(n) { reset(1.0); }

  void reset(double scale) {
    std::fill(h_.begin(), h_.end(), 0.0);
    for (std::size_t i = 0; i < n_; ++i) h_[i * n_ + i] = scale;
  }
  void multiply(std::span<const double> v, std::span<double> out) const {
    for (std::size_t i = 0; i < n_; ++i) out[i] = dot({&h_[i * n_], n_}, v);
  }
  // The BFGS update with step s and gradient change y, s.y > 0.
  void update(std::span<const double> s, std::span<const double> y) {
    const double sy = dot(s, y);
    multiply(y, work_);
    const double factor = (1.0 + dot(y, work_) / sy) / sy;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) {
        h_[i * n_ + j] += factor * s[i] * s[j] - (work_[i] * s[j] + s[i] * work_[j]) / sy;
      }
    }
  }

 private:
  std::size_t n_;
  std::vector<double> h_;
  std::vector<double> work_;
};

}  // namespace

std::vector<double> minimize(const BoundedProblem& problem, std::vector<double> start) {
  std::vector<double> x = std::move(start);
  const std::size_t n = x.size();
  const auto clamp_into_box = [&](std::vector<double>& point) {
    for (std::size_t i = 0; i < n; ++i) {
      point[i] = std::clamp(point[i], problem.lower[i], problem.upper[i]);
    }
  };
  clamp_into_box(x);
  std::vector<double> gradient(n), next(n), next_gradient(n), direction(n), masked(n), s(n), y(n);
  std::vector<char> held(n, 0), was_held(n, 2);
  InverseHessian inverse(n);
  double value = problem.evaluate(x, gradient);
  bool fresh = true;
  int small_steps = 0;

  for (int iteration = 0; iteration < problem.max_iterations; ++iteration) {
    for (std::size_t i = 0; i < n; ++i) {
      held[i] = static_cast<char>(problem.lower[i] == problem.upper[i] ||
                                  (x[i] <= problem.lower[i] && gradient[i] > 0) ||
                                  (x[i] >= problem.upper[i] && gradient[i] < 0));
      masked[i] = held[i] != 0 ? 0.0 : gradient[i];
    }
    const double steepness = std::sqrt(dot(masked, masked));
    if (steepness < 1e-10) break;
    if (held != was_held) {
      fresh = true;
      was_held = held;
    }
    if (fresh) inverse.reset(std::min(1.0, 0.3 / steepness));
    inverse.multiply(masked, direction);
    for (std::size_t i = 0; i < n; ++i) direction[i] = held[i] != 0 ? 0.0 : -direction[i];
    double slope = dot(direction, masked);
    if (slope >= 0) {
      if (fresh) break;
      fresh = true;
      continue;
    }

    double step = 1.0;
    double next_value = value;
    bool moved = false;
    for (int halvings = 0; halvings < 40; ++halvings, step *= 0.5) {
      for (std::size_t i = 0; i < n; ++i) next[i] = x[i] + step * direction[i];
      clamp_into_box(next);
      next_value = problem.evaluate(next, next_gradient);
      if (next_value <= value + 1e-4 * step * slope) {
        moved = true;
        break;
      }
    }
    if (!moved) {
      if (fresh) break;
      fresh = true;
      continue;
    }
    for (std::size_t i = 0; i < n; ++i) {
      s[i] = next[i] - x[i];
      y[i] = held[i] != 0 ? 0.0 : next_gradient[i] - gradient[i];
    }
    const double improvement = value - next_value;
    const double before = value;
    x.swap(next);
    gradient.swap(next_gradient);
    value = next_value;
    fresh = dot(s, y) <= 1e-14;
    if (!fresh) inverse.update(s, y);
    small_steps = improvement <= problem.tolerance * std::abs(before) ? small_steps + 1 : 0;
    if (small_steps >= 2) break;
  }
  return x;
}

}  // namespace rubato
