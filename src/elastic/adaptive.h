// What an adaptive job does in a step: a function of what is fixed for the job (AdaptiveTerms), the
// data state before the step, and the step's logical workers and batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "elastic/batch_rule.h"
#include "elastic/data_order.h"
#include "elastic/partitions.h"
#include "elastic/program.h"

namespace rubato::elastic {

// What is known about a step once it is done.
struct StepFacts {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t used = 0;   // samples of all steps before
  std::int64_t batch = 0;  // that the view asks for; the last step of an epoch has fewer samples
  int logical_workers = 1;
};

class AdaptiveTerms {
 public:
  // `reference` is the order of the job's first batch: its logical workers and batch. The job ends
  // after so many epochs, or earlier after as many samples as `steps` (unless negative) steps of
  // the first batch have: always the same amount of training. Fails when the first batch is
  // outside of the range.
  static Result<AdaptiveTerms> make(const DataOrder& reference, const BatchRange& range,
                                    LrRule rule, std::int64_t epochs, std::int64_t steps);

  const Partitions& partitions() const { return partitions_; }
  const BatchRange& range() const { return range_; }
  std::int64_t reference_batch() const;
  // Most samples in a step.
  std::int64_t most_samples() const;

  // What an update needs to know. Its `step` and `steps_per_epoch` count steps of the first batch,
  // so that a schedule over them goes with the samples, whatever batches used them.
  StepInfo info(const StepFacts& facts) const;
  // The share of a logical worker; reuses the memory of out.samples.
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
