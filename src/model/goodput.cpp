#include "model/goodput.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

constexpr int kCandidates = 50;
constexpr double kRoundingSlack = 1e-8;  // avoids rounding up a value just above a whole number

}  // namespace

BestBatch best_batch(const PerfParams& params, const GradientNoise& noise,
                     const BatchLimits& limits, int nodes, int devices) {
  return BatchCurve(params, limits, nodes, devices).best(noise);
}

BatchCurve::BatchCurve(const PerfParams& params, const BatchLimits& limits, int nodes, int devices)
    : initial_(static_cast<double>(limits.initial)) {
  const double smallest = std::max(initial_, static_cast<double>(limits.min_local) * devices);
  const auto largest = static_cast<double>(limits.max);
  if (smallest > largest) return;
  const double log_ratio = std::log(largest / smallest);
  const double sync = params.sync_s(nodes, devices);
  candidates_.reserve(kCandidates);
  BatchShape last;
  for (int i = 0; i < kCandidates; ++i) {
    const double batch = smallest * std::exp(log_ratio * i / (kCandidates - 1));
    const double local = batch / devices;
    double accumulation =
        std::ceil(local / static_cast<double>(limits.max_local) - kRoundingSlack) - 1;
    if (devices == 1 && local > initial_ + kRoundingSlack)
      accumulation = std::max(accumulation, 1.0);
    const BatchShape shape{
        .local = static_cast<std::int64_t>(std::ceil(local / (accumulation + 1) - kRoundingSlack)),
        .accumulation = static_cast<int>(accumulation)};
    if (shape == last) continue;  // neighbouring candidates of a narrow range are often equal
    last = shape;
    if (shape.local < limits.min_local || shape.local > limits.max_local) continue;
    const double compute = params.compute_s(static_cast<double>(shape.local));
    // The p-norm of PerfParams::step_s, with the communication computed once.
    const double high = std::max(compute, sync);
    const double ratio = std::min(compute, sync) / high;
    const double step = params.gamma == 1.0 ? compute + sync
                                            : high * std::pow(1.0 + std::pow(ratio, params.gamma),
                                                              1.0 / params.gamma);
    const auto total = static_cast<double>(shape.total(devices));
    candidates_.push_back({.shape = shape,
                           .total = total,
                           .throughput = total / (shape.accumulation * compute + step)});
  }
}

BestBatch BatchCurve::best(const GradientNoise& noise) const {
  BestBatch best;
  for (const Candidate& c : candidates_) {
    const double goodput = c.throughput * statistical_efficiency(noise, c.total, initial_);
    if (goodput > best.goodput) best = {.goodput = goodput, .shape = c.shape};
  }
  return best;
}

}  // namespace rubato
