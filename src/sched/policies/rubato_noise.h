// Gradient noise of an application as measured by all its jobs, for the policy `rubato`. It
// determines how much large batches help. It grows while a job trains, often a hundredfold, and it
// is larger when measured with a larger batch. So a job that is further along, or that used another
// batch, tells the others what to expect.
#pragma once

#include <array>
#include <cstddef>

#include "model/efficiency.h"

namespace rubato {

// Noise (variance / squared norm of the gradient) as a function of the batch, at 1, 2, 4, ... times
// the initial batch. Linear in between, constant beyond.
struct NoiseCurve {
  static constexpr std::size_t kDoublings = 10;
  std::array<double, kDoublings> ratio{};

  static NoiseCurve flat(double ratio);
  // At the batch that is this many doublings of the initial one.
  double at(double doublings) const;
  // Like statistical_efficiency(), at `scale` = 2^doublings times the initial batch.
  double efficiency(double scale, double doublings) const {
    const double noise = at(doublings);
    return (noise + 1) / (noise + scale);
  }
  bool operator==(const NoiseCurve&) const = default;
};

// What a job reported last: its noise and the batch it had.
struct NoiseReport {
  double ratio = 0;
  double doublings = 0;  // of the initial batch
};

// variance / squared norm; at most 1e9.
double noise_ratio(const GradientNoise& noise);

// Noise by stage of the training. Early stages are shorter, because noise changes fastest at the
// beginning.
class NoiseStages {
 public:
  static constexpr std::size_t kStages = 16;

  // The stage of a job that has completed this share of its epochs, and where a stage begins.
  static std::size_t stage_at(double share);
  static double begin(std::size_t stage);

  void report(double share, const NoiseReport& noise);
  bool known(std::size_t stage) const { return stages_[stage].known; }
  // Batches that no job used get the noise of the nearest one. The stage must be known.
  NoiseCurve curve(std::size_t stage) const;
  // For a job with a report of its own: the curve of the stage, scaled if the job differs much from
  // it.
  NoiseCurve curve(std::size_t stage, const NoiseReport& own) const;

 private:
  struct Stage {
    std::array<double, NoiseCurve::kDoublings> ratio{};  // 0: no job had such a batch
    bool known = false;
  };
  std::array<Stage, kStages> stages_;
};

}  // namespace rubato
