#include "model/parametric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "model/bounded_minimize.h"

namespace rubato {

namespace {

// Lower limit of every time, so that logarithms and powers stay finite.
constexpr double kTiny = 1e-8;
constexpr double kGammaWeight = 1e-3;
constexpr double kRetrogressionWeight = 1e-2;

enum Index : std::size_t { kAlphaC, kBetaC, kAlphaN, kBetaN, kAlphaR, kBetaR, kGamma, kCount };

double further_devices(int devices) { return std::max(devices - 2.0, kTiny); }

double p_norm(double a, double b, double gamma) {
  if (gamma == 1.0) return a + b;
  const double high = std::max(a, b);
  return high * std::pow(1.0 + std::pow(std::min(a, b) / high, gamma), 1.0 / gamma);
}

PerfParams to_params(std::span<const double> x) {
  // The six times are searched in logarithmic space, because they span many orders of magnitude.
  return {.alpha_c = std::exp(x[kAlphaC]),
          .beta_c = std::exp(x[kBetaC]),
          .alpha_n = std::exp(x[kAlphaN]),
          .beta_n = std::exp(x[kBetaN]),
          .alpha_r = std::exp(x[kAlphaR]),
          .beta_r = std::exp(x[kBetaR]),
          .gamma = x[kGamma]};
}

// Value and gradient of the fit's objective with respect to the search variables.
double objective(std::span<const double> x, std::span<double> gradient,
                 std::span<const Observation> observations) {
  const PerfParams p = to_params(x);
  const auto count = static_cast<double>(observations.size());
  double compute_error = 0;
  double step_error = 0;
  std::array<double, kCount> compute_slope{};
  std::array<double, kCount> step_slope{};
  for (const Observation& o : observations) {
    const auto local = static_cast<double>(o.local);
    const double compute = p.compute_s(local);
    const double sync = p.sync_s(o.nodes, o.devices);
    const double log_compute = std::log(compute);
    const double log_sync = std::log(sync);
    // log of (compute^g + sync^g)^(1/g), and the share of each term in the sum.
    const double high = std::max(log_compute, log_sync);
    const double compute_power = std::exp(p.gamma * (log_compute - high));
    const double sync_power = std::exp(p.gamma * (log_sync - high));
    const double log_sum = std::log(compute_power + sync_power);
    const double compute_share = compute_power / (compute_power + sync_power);
    const double sync_share = 1.0 - compute_share;
    const double log_step = high + log_sum / p.gamma;

    const double compute_off = log_compute - std::log(std::max(o.step_s - o.sync_s, kTiny));
    const double step_off = log_step - std::log(o.step_s);
    compute_error += compute_off * compute_off;
    step_error += step_off * step_off;

    const double d_alpha = p.alpha_c / compute;
    const double d_beta = p.beta_c * local / compute;
    compute_slope[kAlphaC] += compute_off * d_alpha;
    compute_slope[kBetaC] += compute_off * d_beta;
    step_slope[kAlphaC] += step_off * compute_share * d_alpha;
    step_slope[kBetaC] += step_off * compute_share * d_beta;
    if (o.devices > 1) {
      const bool across = o.nodes > 1;
      const double alpha = across ? p.alpha_n : p.alpha_r;
      const double beta = across ? p.beta_n : p.beta_r;
      step_slope[across ? kAlphaN : kAlphaR] += step_off * sync_share * alpha / sync;
      step_slope[across ? kBetaN : kBetaR] +=
          step_off * sync_share * beta * further_devices(o.devices) / sync;
    }
    const double d_gamma = (compute_share * (log_compute - high) + sync_share * (log_sync - high) -
                            log_sum / p.gamma) /
                           p.gamma;
    step_slope[kGamma] += step_off * d_gamma;
  }
  // Smoothed at 0, where the root is not differentiable.
  const double compute_rmse = std::sqrt(compute_error / count + 1e-14);
  const double step_rmse = std::sqrt(step_error / count + 1e-14);
  for (std::size_t i = 0; i < kCount; ++i) {
    gradient[i] = compute_slope[i] / (count * compute_rmse) + step_slope[i] / (count * step_rmse);
  }
  gradient[kGamma] += 2 * kGammaWeight * (p.gamma - 1);
  const double across_ratio = p.beta_n / p.alpha_n;
  const double within_ratio = p.beta_r / p.alpha_r;
  const double across_prior = kRetrogressionWeight * across_ratio * across_ratio;
  const double within_prior = kRetrogressionWeight * within_ratio * within_ratio;
  gradient[kBetaN] += 2 * across_prior;
  gradient[kAlphaN] -= 2 * across_prior;
  gradient[kBetaR] += 2 * within_prior;
  gradient[kAlphaR] -= 2 * within_prior;
  return compute_rmse + step_rmse + kGammaWeight * (p.gamma - 1) * (p.gamma - 1) + across_prior +
         within_prior;
}

}  // namespace

Seconds PerfParams::sync_s(int nodes, int devices) const {
  if (nodes > 1) return alpha_n + beta_n * further_devices(devices);
  if (devices > 1) return alpha_r + beta_r * further_devices(devices);
  return kTiny;
}

Seconds PerfParams::step_s(int nodes, int devices, double local) const {
  return p_norm(compute_s(local), sync_s(nodes, devices), gamma);
}

double fit_error(const PerfParams& p, std::span<const Observation> observations) {
  const std::array<double, kCount> x{std::log(p.alpha_c),
                                     std::log(p.beta_c),
                                     std::log(p.alpha_n),
                                     std::log(p.beta_n),
                                     std::log(p.alpha_r),
                                     std::log(p.beta_r),
                                     p.gamma};
  std::array<double, kCount> gradient{};
  return objective(x, gradient, observations);
}

PerfParams fit(std::span<const Observation> observations) {
  RUBATO_CHECK(!observations.empty(), "a fit needs an observation");
  const double low = std::log(kTiny);
  const double high = std::log(1e6);
  std::vector<double> lower{low, low, low, low, low, low, 1.0};
  std::vector<double> upper{high, high, high, high, high, high, 10.0};
  // Start at the scale of the measurements: times differ by orders of magnitude between jobs.
  double compute_mean = 0;
  double local_mean = 0;
  std::array<double, 2> sync_sum{};
  std::array<double, 2> sync_count{};
  for (const Observation& o : observations) {
    const auto count = static_cast<double>(observations.size());
    compute_mean += std::max(o.step_s - o.sync_s, kTiny) / count;
    local_mean += static_cast<double>(o.local) / count;
    if (o.devices < 2) continue;
    sync_sum[o.nodes > 1 ? 1 : 0] += o.sync_s;
    sync_count[o.nodes > 1 ? 1 : 0] += 1;
  }
  const auto sync_mean = [&](std::size_t across) {
    return std::max(sync_sum[across] / std::max(sync_count[across], 1.0), 1e-4 * compute_mean);
  };
  // Also try a fixed start: the objective has several minima, and either start may lead to the
  // better one.
  std::array<std::vector<double>, 2> starts{
      std::vector<double>{std::log(compute_mean / 2), std::log(compute_mean / 2 / local_mean),
                          std::log(sync_mean(1)), std::log(sync_mean(1) / 20),
                          std::log(sync_mean(0)), std::log(sync_mean(0) / 20), 1.0 + 1e-3},
      std::vector<double>{std::log(1e-1), std::log(1e-2), std::log(1e-1), std::log(1e-2),
                          std::log(1e-1), std::log(1e-2), 1.0 + 1e-3}};
  const auto hold = [&](Index i, double value) {
    for (std::vector<double>& start : starts) start[i] = value;
    lower[i] = upper[i] = value;
  };

  const auto any = [&](auto&& condition) {
    return std::any_of(observations.begin(), observations.end(), condition);
  };
  const bool several_batches =
      any([&](const Observation& o) { return o.local != observations.front().local; });
  const bool across = any([](const Observation& o) { return o.nodes > 1; });
  const bool within = any([](const Observation& o) { return o.nodes == 1 && o.devices > 1; });
  const bool beyond_two = any([](const Observation& o) { return o.devices > 2; });

  if (!several_batches) hold(kAlphaC, std::log(std::max(compute_mean / 2, kTiny)));
  if (!across) hold(kAlphaN, low);
  if (!across || !beyond_two) hold(kBetaN, low);
  if (!within) hold(kAlphaR, low);
  if (!within || !beyond_two) hold(kBetaR, low);

  const BoundedProblem problem{
      .evaluate = [&](std::span<const double> x,
                      std::span<double> g) { return objective(x, g, observations); },
      .lower = lower,
      .upper = upper};
  std::array<double, kCount> gradient{};
  std::vector<double> best;
  for (std::vector<double>& start : starts) {
    std::vector<double> found = minimize(problem, std::move(start));
    if (best.empty() ||
        objective(found, gradient, observations) < objective(best, gradient, observations)) {
      best = std::move(found);
    }
  }
  PerfParams params = to_params(best);
  if (!across) {
    params.alpha_n = std::max(params.alpha_n, params.alpha_r * 1.1);
    params.beta_n = std::max(params.beta_n, params.beta_r * 1.1);
  }
  return params;
}

StepTime ParametricSpeed::step_time(const Placement& placement, std::int64_t local) const {
  const double step =
      params_.step_s(placement.nodes(), placement.devices(), static_cast<double>(local));
  return {.step_s = step,
          .sync_s = step - std::min(step, params_.compute_s(static_cast<double>(local))),
          .confidence = Confidence::kInterpolated};
}

}  // namespace rubato
