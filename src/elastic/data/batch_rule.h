// The batch size of a step and the number of logical workers that share it.
//
// Consistent jobs: both are fixed. Adaptive jobs: both depend on the workers of a view. A view has
// one logical worker per worker. The result depends on the views anyway, so hosting several would
// only split a device's mini-batch into smaller ones. A rule adapts the learning rate to the batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::elastic {

// Samples per step over all logical workers: `low` to `high`, inclusive.
struct BatchRange {
  std::int64_t low = 0;
  std::int64_t high = 0;

  bool contains(std::int64_t batch) const { return low <= batch && batch <= high; }
  friend bool operator==(const BatchRange&, const BatchRange&) = default;
};
inline constexpr std::int64_t kLargestBatch = std::int64_t{1} << 30;
// "LOW..HIGH" with 1 <= LOW <= HIGH <= kLargestBatch.
Result<BatchRange> parse_batch_range(std::string_view text);
std::string to_string(const BatchRange& range);

// How the learning rate depends on the batch.
enum class LrRule { kLinear, kSqrt, kNone };
Result<LrRule> parse_lr_rule(std::string_view name);  // linear | sqrt | none
std::string_view to_string(LrRule rule);
// The factor on the learning rate of a step with `batch` samples, for a rate that was chosen for
// `reference` samples. It is 1 if the two are equal, whatever the rule.
double rate_factor(LrRule rule, std::int64_t batch, std::int64_t reference);

class BatchRule {
 public:
  static BatchRule consistent(int logical_workers, std::int64_t per_logical_worker);
  static BatchRule adaptive(const BatchRange& range, std::int64_t per_worker);

  int logical_workers(int workers) const;
  // The batch of a view with `workers` workers, after a request for `asked` samples on `wanted`
  // workers (asked = 0: no specific request). While there are fewer workers than wanted, each keeps
  // its share, so no device gets more than intended. The sum is clamped to the range.
  std::int64_t batch(int workers, int wanted, std::int64_t asked) const;

 private:
  int logical_workers_ = 0;  // 0: as many as workers
  std::int64_t per_worker_ = 1;
  BatchRange range_;
};

}  // namespace rubato::elastic
