// How much of a job is done: the progress predictor of ONES, learned online from finished jobs.
//
// rho, the completed share of a job's work, is Beta(alpha, beta) distributed. alpha grows with the
// completed epochs; beta is the number of further epochs that a regression predicts. What remains
// is done x (1/rho - 1). One draw per decision explores like Thompson sampling: a job that has just
// started may look short or long, while a job that has run for long is known well.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/random.h"

namespace rubato {

// Draws from the Gamma distribution with this shape (above 0) and scale 1 (Marsaglia and Tsang).
double draw_gamma(double shape, Random& random);
// Draws from the Beta distribution, in (0, 1). alpha and beta must be positive.
double draw_beta(double alpha, double beta, Random& random);

// What is known about a job at one moment. Work is counted in epochs. For a job that does not count
// epochs, device-seconds in units of kServiceEpoch take their place.
struct ProgressFeatures {
  double epochs_done = 0;
  double epochs_declared = 0;  // by its owner; 0: not declared
  double samples_done = 0;
  double initial_batch = 0;  // 0: no batches
  // Gradient variance over squared norm at the initial batch; grows as a job converges. It replaces
  // the loss improvement that ONES uses, which a scheduler does not see.
  double noise_ratio = 0;
};
inline constexpr double kServiceEpoch = 600;  // device-seconds

// Ridge regression of log(1 + all epochs of a job), from which the completed epochs are subtracted.
// Before it has learned anything, it predicts what the owner declared or, without a declaration, as
// much again as was done (at least one epoch). Learning a pair costs O(features^2). A prediction
// costs O(features), after O(features^3) once.
class RemainingEpochs {
 public:
  // A job in state `then` finished after `followed` further epochs.
  void learn(const ProgressFeatures& then, double followed);
  double predict(const ProgressFeatures& now) const;
  long learned() const { return pairs_; }

 private:
  static constexpr std::size_t kFeatures = 6;
  using Row = std::array<double, kFeatures>;
  static Row row(const ProgressFeatures& features);
  static double prior(const ProgressFeatures& features);
  void solve() const;

  std::array<Row, kFeatures> gram_{};  // sum of x x'
  Row moment_{};                       // sum of x (y - prior)
  double low_ = 0, high_ = 0;          // range of the targets seen
  long pairs_ = 0;
  mutable Row weights_{};
  mutable bool solved_ = true;
};

// The distribution of rho for one job.
struct ProgressBelief {
  double done = 0;  // epochs; at least a small positive number
  double alpha = 1;
  double beta = 1;

  double mean() const { return alpha / (alpha + beta); }
  // Remaining epochs if this share is done.
  double remaining(double rho) const { return done * (1 / rho - 1); }
};
// alpha = 1 + completed epochs, beta = predicted further epochs (at least a hundredth). The
// completed work counts as alpha epochs, so that a job that has just started is not mistaken for a
// finished one.
ProgressBelief believe(const ProgressFeatures& now, const RemainingEpochs& model);

}  // namespace rubato
