#include "elastic/job/job_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace rubato::elastic {

namespace {

std::string describe_shape(const ProgramShape& shape, const DataOrder::Options& data) {
  std::size_t state = 0;
  for (const std::size_t unit : shape.unit_bytes) state += unit;
  return fmt::format(
      "gradient_floats={} units={} state_bytes={} private_bytes={} samples={} batch={} seed={} "
      "shuffle={} logical_workers={}",
      shape.gradient_floats, shape.unit_bytes.size(), state, shape.private_bytes, data.samples,
      data.batch, data.seed, data.shuffle, data.logical_workers);
}

constexpr std::string_view kSteps = " steps=";
constexpr std::string_view kSamples = " total_samples=";

// The length stands at the end.
std::string_view without_length(std::string_view description) {
  for (const std::string_view field : {kSteps, kSamples}) {
    const std::size_t at = description.rfind(field);
    if (at == std::string_view::npos) continue;
    const std::string_view number = description.substr(at + field.size());
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos) {
      return description.substr(0, at);
    }
  }
  return description;
}

}  // namespace

bool same_training(std::string_view one, std::string_view other) {
  return without_length(one) == without_length(other);
}

std::string describe_job(const ProgramShape& shape, const DataOrder::Options& data,
                         std::int64_t total_steps) {
  return fmt::format("{}{}{}", describe_shape(shape, data), kSteps, total_steps);
}

std::string describe_adaptive_job(const ProgramShape& shape, const DataOrder::Options& data,
                                  LrRule rule, std::int64_t total_samples) {
  return fmt::format("adaptive {} lr_rule={}{}{}", describe_shape(shape, data), to_string(rule),
                     kSamples, total_samples);
}

}  // namespace rubato::elastic
