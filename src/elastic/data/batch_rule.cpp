#include "elastic/data/batch_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace rubato::elastic {

Result<BatchRange> parse_batch_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto number = [](std::string_view part) -> std::int64_t {
    const auto value = parse_int(part);
    return value && *value >= 1 && *value <= kLargestBatch ? *value : 0;
  };
  const std::int64_t low = dots == std::string_view::npos ? 0 : number(text.substr(0, dots));
  const std::int64_t high = dots == std::string_view::npos ? 0 : number(text.substr(dots + 2));
  if (low == 0 || high == 0) {
    return invalid_input(
        fmt::format("a batch range has the form LOW..HIGH with numbers of samples from 1 to {}, as "
                    "in 64..512; not '{}'",
                    kLargestBatch, text));
  }
  if (low > high) {
    return invalid_input(
        fmt::format("the batch range {} has its bounds in the wrong order; did you mean {}..{}?",
                    text, high, low));
  }
  return BatchRange{low, high};
}

std::string to_string(const BatchRange& range) {
  return fmt::format("{}..{}", range.low, range.high);
}

Result<LrRule> parse_lr_rule(std::string_view name) {
  for (const LrRule rule : {LrRule::kLinear, LrRule::kSqrt, LrRule::kNone}) {
    if (to_string(rule) == name) return rule;
  }
  return invalid_input(fmt::format("a learning-rate rule is linear, sqrt or none; not '{}'", name));
}

std::string_view to_string(LrRule rule) {
  switch (rule) {
    case LrRule::kLinear:
      return "linear";
    case LrRule::kSqrt:
      return "sqrt";
    case LrRule::kNone:
      break;
  }
  return "none";
}

double rate_factor(LrRule rule, std::int64_t batch, std::int64_t reference) {
  const double ratio = static_cast<double>(batch) / static_cast<double>(reference);
  switch (rule) {
    case LrRule::kLinear:
      return ratio;
    case LrRule::kSqrt:
      return std::sqrt(ratio);
    case LrRule::kNone:
      break;
  }
  return 1.0;
}

BatchRule BatchRule::consistent(int logical_workers, std::int64_t per_logical_worker) {
  RUBATO_CHECK(logical_workers >= 1, "a job needs at least one logical worker");
  BatchRule rule;
  rule.logical_workers_ = logical_workers;
  rule.per_worker_ = per_logical_worker;
  return rule;
}

BatchRule BatchRule::adaptive(const BatchRange& range, std::int64_t per_worker) {
  BatchRule rule;
  rule.per_worker_ = std::min(per_worker, kLargestBatch);
  rule.range_ = range;
  return rule;
}

int BatchRule::logical_workers(int workers) const {
  return logical_workers_ > 0 ? logical_workers_ : workers;
}

std::int64_t BatchRule::batch(int workers, int wanted, std::int64_t asked) const {
  if (logical_workers_ > 0) return logical_workers_ * per_worker_;
  const std::int64_t batch = asked > 0 ? asked * workers / wanted : per_worker_ * workers;
  return std::clamp(batch, range_.low, range_.high);
}

}  // namespace rubato::elastic
