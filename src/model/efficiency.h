// Statistical efficiency from gradient noise: how much a sample in a large batch is worth, relative
// to a sample in the initial batch.
#pragma once

#include <cstdint>

namespace rubato {

// Squared norm of the true gradient and variance of its estimate at the initial batch.
struct GradientNoise {
  double squared_norm = 0;
  double variance = 0;
};

// Progress of one update at `scale` times the initial batch, in updates of the initial batch: (var
// + sqr) / (var / scale + sqr). 1 at scale 1, at most `scale`; 1 without a noise estimate.
double update_gain(const GradientNoise& noise, double scale);

// gain / scale: the share of samples that still help. 1 at the initial batch, falling as the batch
// grows. Equals (phi + M0) / (phi + M) with the noise scale phi = M0 var / sqr.
double statistical_efficiency(const GradientNoise& noise, double batch, double initial_batch);

}  // namespace rubato
