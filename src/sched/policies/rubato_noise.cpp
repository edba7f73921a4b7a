#include "sched/policies/rubato_noise.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

constexpr double kLeastNoise = 1e-6;
constexpr double kMostNoise = 1e9;
// The first stage is roughly this many times shorter than with an equal division.
constexpr double kShorter = 50;
// A job keeps its own level if its noise differs from that of its stage by more than this factor.
constexpr double kDifferent = 3;

std::size_t nearest_doubling(double doublings) {
  return static_cast<std::size_t>(
      std::clamp(std::round(doublings), 0.0, static_cast<double>(NoiseCurve::kDoublings - 1)));
}

}  // namespace

double noise_ratio(const GradientNoise& noise) {
  if (noise.variance <= 0) return 0;
  if (noise.squared_norm <= 0) return kMostNoise;
  return std::min(kMostNoise, noise.variance / noise.squared_norm);
}

NoiseCurve NoiseCurve::flat(double ratio) {
  NoiseCurve curve;
  curve.ratio.fill(ratio);
  return curve;
}

double NoiseCurve::at(double doublings) const {
  const double place = std::clamp(doublings, 0.0, static_cast<double>(kDoublings - 1));
  const std::size_t below = std::min(static_cast<std::size_t>(place), kDoublings - 2);
  const double part = place - static_cast<double>(below);
  return ratio[below] + part * (ratio[below + 1] - ratio[below]);
}

std::size_t NoiseStages::stage_at(double share) {
  const double place = std::log1p(kShorter * std::max(0.0, share)) / std::log1p(kShorter);
  return std::min(kStages - 1, static_cast<std::size_t>(place * kStages));
}

double NoiseStages::begin(std::size_t stage) {
  const double place = static_cast<double>(stage) / kStages;
  return std::expm1(place * std::log1p(kShorter)) / kShorter;
}

void NoiseStages::report(double share, const NoiseReport& noise) {
  Stage& stage = stages_[stage_at(share)];
  stage.ratio[nearest_doubling(noise.doublings)] = std::max(kLeastNoise, noise.ratio);
  stage.known = true;
}

NoiseCurve NoiseStages::curve(std::size_t stage) const {
  const auto& known = stages_[stage].ratio;
  NoiseCurve result;
  for (std::size_t d = 0; d < NoiseCurve::kDoublings; ++d) {
    for (std::size_t away = 0; away < NoiseCurve::kDoublings && result.ratio[d] == 0; ++away) {
      if (d >= away && known[d - away] > 0) {
        result.ratio[d] = known[d - away];
      } else if (d + away < NoiseCurve::kDoublings) {
        result.ratio[d] = known[d + away];
      }
    }
  }
  return result;
}

NoiseCurve NoiseStages::curve(std::size_t stage, const NoiseReport& own) const {
  NoiseCurve result = curve(stage);
  const double factor = std::max(kLeastNoise, own.ratio) / result.at(own.doublings);
  if (std::abs(std::log(factor)) > std::log(kDifferent)) {
    for (double& ratio : result.ratio) ratio *= factor;
  }
  return result;
}

}  // namespace rubato
