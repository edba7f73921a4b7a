#include "elastic/data/adaptive.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace rubato::elastic {

namespace {

// Long enough that a logical worker mostly reads contiguous data, short enough that an epoch has
// many partitions.
constexpr std::int64_t kMiniBatchesPerPartition = 8;

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return b > 0 && a > kMost / b ? kMost : a * b;
}

std::int64_t total_samples(const DataOrder& reference, std::int64_t epochs, std::int64_t steps) {
  const DataOrder::Options& data = reference.options();
  const std::int64_t all = saturating_product(epochs, data.samples);
  const std::int64_t per_epoch = reference.steps_per_epoch();
  if (steps < 0 || steps / per_epoch >= epochs) return all;
  const std::int64_t rest =
      std::min(steps % per_epoch * data.logical_workers * data.batch, data.samples);
  return std::min(all, saturating_product(steps / per_epoch, data.samples) + rest);
}

}  // namespace

Result<AdaptiveTerms> AdaptiveTerms::make(const DataOrder& reference, const BatchRange& range,
                                          LrRule rule, std::int64_t epochs, std::int64_t steps) {
  const DataOrder::Options& data = reference.options();
  const std::int64_t first = saturating_product(data.batch, data.logical_workers);
  if (!range.contains(first)) {
    return invalid_input(
        fmt::format("the first step would have {} samples ({} on each of {}), outside the batch "
                    "range {}; change the program's batch size, the number of workers it starts "
                    "with ('rubato run': --workers, a job of the daemon: devices) or the batch "
                    "range ('rubato run': --batch-range, a job of the daemon: batch)",
                    first, data.batch, counted(data.logical_workers, "worker"), to_string(range)));
  }
  return AdaptiveTerms(
      reference, range, rule,
      Partitions({.samples = data.samples,
                  .partition = std::min(kMiniBatchesPerPartition * data.batch, data.samples),
                  .total_samples = total_samples(reference, epochs, steps)}));
}

std::int64_t AdaptiveTerms::reference_batch() const {
  return reference_.options().batch * reference_.options().logical_workers;
}

std::int64_t AdaptiveTerms::most_samples() const {
  return std::min(range_.high, reference_.options().samples);
}

StepInfo AdaptiveTerms::info(const StepFacts& facts) const {
  const std::int64_t per_epoch = reference_.steps_per_epoch();
  const std::int64_t in_epoch = facts.used - facts.epoch * reference_.options().samples;
  return {.step = facts.epoch * per_epoch + in_epoch / reference_batch(),
          .epoch = facts.epoch,
          .steps_per_epoch = per_epoch,
          .rate_factor = rate_factor(rule_, facts.batch, reference_batch())};
}

void AdaptiveTerms::fill(const StepShares& shares, std::int64_t step, int logical,
                         MiniBatch& out) const {
  out.step = step;
  out.epoch = shares.epoch;
  out.logical = logical;
  out.logical_workers = static_cast<int>(shares.of_logical.size());
  out.random_seed = reference_.share_seed(step, logical);
  out.samples.clear();
  for (const PositionRange& range : shares.of_logical[static_cast<std::size_t>(logical)]) {
    for (std::int64_t position = range.begin; position < range.end; ++position) {
      out.samples.push_back(reference_.sample_at(shares.epoch, position));
    }
  }
  out.weight = static_cast<double>(out.samples.size()) * static_cast<double>(out.logical_workers) /
               static_cast<double>(shares.samples);
}

}  // namespace rubato::elastic
