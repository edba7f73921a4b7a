// Gradient noise of an application as all its jobs measured it, for the policy `rubato`. It decides
// how much large batches help, and it depends on two things: it grows while a job trains, often a
// hundredfold, and it is larger when it is measured with a larger batch. So one job that is
// further, or that used another batch, tells the others what to expect.
#pragma once

#include <array>
#include <cstddef>

#include "model/efficiency.h"

namespace rubato {

// Noise (variance / squared norm of the gradient) as a function of the batch: at 1, 2, 4, ... times
// the initial one; between them linear, beyond them constant.
struct NoiseCurve {
  static constexpr std::size_t kDoublings = 10;
  std::array<double, kDoublings> ratio{};

  static NoiseCurve flat(double ratio);
  // At the batch that is so many doublings of the initial one.
  double at(double doublings) const;
  // As statistical_efficiency(), at `scale` = 2^doublings times the initial batch.
  double efficiency(double scale, double doublings) const {
    const double noise = at(doublings);
    return (noise + 1) / (noise + scale);
  }
  bool operator==(const NoiseCurve&) const = default;
};

// What a job reported last: its noise, and the batch it had.
struct NoiseReport {
  double ratio = 0;
  double doublings = 0;  // of the initial batch
};

// variance / squared norm; at most 1e9.
double noise_ratio(const GradientNoise& noise);

// By stages of the training, short ones first: in the beginning noise changes fastest.
class NoiseStages {
 public:
  static constexpr std::size_t kStages = 16;

  // The stage of a job that has done this share of its epochs, and where a stage begins.
  static std::size_t stage_at(double share);
  static double begin(std::size_t stage);

  void report(double share, const NoiseReport& noise);
  bool known(std::size_t stage) const { return stages_[stage].known; }
  // For batches that nobody used, that of the nearest one. Only of stages that are known.
  NoiseCurve curve(std::size_t stage) const;
  // Of a job with this report of its own: the stage's, unless the job is quite different.
  NoiseCurve curve(std::size_t stage, const NoiseReport& own) const;

 private:
  struct Stage {
    std::array<double, NoiseCurve::kDoublings> ratio{};  // 0: nobody had such a batch
    bool known = false;
  };
  std::array<Stage, kStages> stages_;
};

}  // namespace rubato
