// Goodput = throughput x statistical efficiency, and the batch that maximises it on given devices.
#pragma once

#include "model/batch.h"
#include "model/efficiency.h"
#include "model/parametric.h"

namespace rubato {

struct BestBatch {
  double goodput = 0;  // samples of the initial batch's worth per second
  BatchShape shape;
};

// Tries 50 total batches spaced geometrically between the smallest and the largest allowed one (as
// Pollux does) and returns the best; goodput 0 when no micro-batch fits. Cost: 50 evaluations of
// the speed model.
BestBatch best_batch(const PerfParams& params, const GradientNoise& noise,
                     const BatchLimits& limits, int nodes, int devices);

}  // namespace rubato
