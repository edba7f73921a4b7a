// What an adaptive job does in a step. It depends only on the fixed terms of the job
// (AdaptiveTerms), the data state before the step, and the step's logical workers and batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "elastic/data/batch_rule.h"
#include "elastic/data/data_order.h"
#include "elastic/data/partitions.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

// Facts about a completed step.
struct StepFacts {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t used = 0;   // samples used by all previous steps
  std::int64_t batch = 0;  // batch of the view; the last step of an epoch may have fewer samples
  int logical_workers = 1;
};

class AdaptiveTerms {
 public:
  // `reference` is the data order of the job's first batch, with its logical workers and batch
  // size. The job ends after `epochs` epochs. If `steps` is not negative, it may end earlier:
  // after as many samples as that many steps of the first batch have. The amount of training is
  // thus always the same. Fails if the first batch is outside the range.
  static Result<AdaptiveTerms> make(const DataOrder& reference, const BatchRange& range,
                                    LrRule rule, std::int64_t epochs, std::int64_t steps);

  const Partitions& partitions() const { return partitions_; }
  const BatchRange& range() const { return range_; }
  std::int64_t reference_batch() const;
  // The largest number of samples in a step.
  std::int64_t most_samples() const;

  // The information an update needs. Its `step` and `steps_per_epoch` count steps of the first
  // batch, so a schedule over them follows the samples, whatever the batch sizes were.
  StepInfo info(const StepFacts& facts) const;
  // Fills in the share of a logical worker. Reuses the memory of out.samples.
  void fill(const StepShares& shares, std::int64_t step, int logical, MiniBatch& out) const;

 private:
  AdaptiveTerms(const DataOrder& reference, const BatchRange& range, LrRule rule,
                const Partitions& partitions)
      : reference_(reference), range_(range), rule_(rule), partitions_(partitions) {}

  DataOrder reference_;
  BatchRange range_;
  LrRule rule_;
  Partitions partitions_;
};

}  // namespace rubato::elastic
