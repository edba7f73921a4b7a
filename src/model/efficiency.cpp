#include "model/efficiency.h"

namespace rubato {

double update_gain(const GradientNoise& noise, double scale) {
  const double denominator = noise.variance / scale + noise.squared_norm;
  return denominator > 0 ? (noise.variance + noise.squared_norm) / denominator : 1.0;
}

double statistical_efficiency(const GradientNoise& noise, double batch, double initial_batch) {
  const double scale = batch / initial_batch;
  return update_gain(noise, scale) / scale;
}

}  // namespace rubato
