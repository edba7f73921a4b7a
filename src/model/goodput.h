// Goodput = throughput x statistical efficiency, and the batch that maximises it on given devices.
#pragma once

#include <vector>

#include "model/batch.h"
#include "model/efficiency.h"
#include "model/parametric.h"

namespace rubato {

struct BestBatch {
  double goodput = 0;  // samples per second, each worth a sample of the initial batch
  BatchShape shape;
};

// Tries 50 total batches, spaced geometrically between the smallest and the largest allowed one (as
// Pollux does), and returns the best. Goodput 0 if no micro-batch fits. Cost: 50 evaluations of the
// speed model.
BestBatch best_batch(const PerfParams& params, const GradientNoise& noise,
                     const BatchLimits& limits, int nodes, int devices);

// The same for any noise: the speed of every candidate is computed once, so asking again with other
// noise costs only a few operations per candidate.
class BatchCurve {
 public:
  BatchCurve(const PerfParams& params, const BatchLimits& limits, int nodes, int devices);
  BestBatch best(const GradientNoise& noise) const;
  // Multiplies the speed at each micro-batch by `factor(local)`.
  template <typename Factor>
  void correct(Factor factor) {
    for (Candidate& c : candidates_) c.throughput *= factor(c.shape.local);
  }

 private:
  struct Candidate {
    BatchShape shape;
    double total = 0;       // samples per update
    double throughput = 0;  // samples per second
  };
  double initial_;
  std::vector<Candidate> candidates_;
};

}  // namespace rubato
