#include "sched/policies/ones_progress.h"

#include <algorithm>
#include <cmath>

namespace rubato {

double draw_gamma(double shape, Random& random) {
  if (shape < 1) {
    // Gamma(a) = Gamma(a + 1) x U^(1/a).
    const double larger = draw_gamma(shape + 1, random);
    return larger * std::pow(1 - random.uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform();
    if (std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

double draw_beta(double alpha, double beta, Random& random) {
  constexpr double kEdge = 1e-9;  // keeps the result away from exactly 0 and 1
  const double a = draw_gamma(alpha, random);
  const double b = draw_gamma(beta, random);
  return a + b > 0 ? std::clamp(a / (a + b), kEdge, 1 - kEdge) : 0.5;
}

double RemainingEpochs::prior(const ProgressFeatures& f) {
  const double all = f.epochs_declared > 0 ? std::max(f.epochs_declared, f.epochs_done)
                                           : f.epochs_done + std::max(1.0, f.epochs_done);
  return std::log1p(all);
}

RemainingEpochs::Row RemainingEpochs::row(const ProgressFeatures& f) {
  return {1.0,
          prior(f),
          std::log1p(f.epochs_done),
          f.initial_batch > 0 ? std::log1p(f.samples_done / f.initial_batch) / 8 : 0.0,
          f.initial_batch > 0 ? std::log1p(f.initial_batch) / 8 : 0.0,
          std::log1p(std::max(0.0, f.noise_ratio)) / 4};
}

void RemainingEpochs::learn(const ProgressFeatures& then, double followed) {
  const Row x = row(then);
  const double target = std::log1p(then.epochs_done + std::max(0.0, followed));
  const double error = target - prior(then);
  for (std::size_t i = 0; i < kFeatures; ++i) {
    for (std::size_t k = 0; k < kFeatures; ++k) gram_[i][k] += x[i] * x[k];
    moment_[i] += x[i] * error;
  }
  low_ = pairs_ == 0 ? target : std::min(low_, target);
  high_ = pairs_ == 0 ? target : std::max(high_, target);
  ++pairs_;
  solved_ = false;
}

// Cholesky factorisation of the ridge system (gram + I) w = moment. w corrects the prior and is
// pulled to 0.
void RemainingEpochs::solve() const {
  solved_ = true;
  std::array<Row, kFeatures> l{};
  for (std::size_t i = 0; i < kFeatures; ++i) {
    for (std::size_t k = 0; k <= i; ++k) {
      double sum = gram_[i][k] + (i == k ? 1.0 : 0.0);
      for (std::size_t m = 0; m < k; ++m) sum -= l[i][m] * l[k][m];
      l[i][k] = i == k ? std::sqrt(std::max(sum, 1e-12)) : sum / l[k][k];
    }
  }
  Row y{};
  for (std::size_t i = 0; i < kFeatures; ++i) {
    double sum = moment_[i];
    for (std::size_t m = 0; m < i; ++m) sum -= l[i][m] * y[m];
    y[i] = sum / l[i][i];
  }
  for (std::size_t i = kFeatures; i-- > 0;) {
    double sum = y[i];
    for (std::size_t m = i + 1; m < kFeatures; ++m) sum -= l[m][i] * weights_[m];
    weights_[i] = sum / l[i][i];
  }
}

double RemainingEpochs::predict(const ProgressFeatures& now) const {
  if (!solved_) solve();
  const double before = prior(now);
  double answer = before;
  if (pairs_ > 0) {
    const Row x = row(now);
    for (std::size_t i = 0; i < kFeatures; ++i) answer += weights_[i] * x[i];
    // Never beyond what was seen or declared.
    answer = std::clamp(answer, std::min(low_, before), std::max(high_, before));
  }
  return std::max(0.0, std::expm1(answer) - now.epochs_done);
}

ProgressBelief believe(const ProgressFeatures& now, const RemainingEpochs& model) {
  ProgressBelief belief;
  belief.alpha = 1 + now.epochs_done;
  belief.beta = std::max(0.01, model.predict(now));
  belief.done = belief.alpha;
  return belief;
}

}  // namespace rubato
