#include "sim/mix.h"

#include <fmt/format.h>

#include "base/located_json.h"
#include "base/names.h"
#include "sim/generate.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

using nlohmann::json;

constexpr NumberRange kWeight{0, 1e9};

const std::vector<std::string>& top_fields() {
  static const std::vector<std::string> kFields{"applications"};
  return kFields;
}

const std::vector<std::string>& kind_fields() {
  static const std::vector<std::string> kFields{"application", "duration", "weight", "devices",
                                                "batch_per_device"};
  return kFields;
}

// "devices": [[size, weight], ...]
Result<Weighted<int>> read_sizes(const LocatedJson& mix, const json& value,
                                 const std::string& path) {
  if (!value.is_array() || value.empty()) {
    return mix.error_at(
        path, fmt::format("expected a list of [devices, weight] pairs, not {}", shown(value)));
  }
  Weighted<int> sizes;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string pair_path = fmt::format("{}[{}]", path, i);
    const json& pair = value[i];
    if (!pair.is_array() || pair.size() != 2) {
      return mix.error_at(pair_path,
                          fmt::format("expected a pair [devices, weight], not {}", shown(pair)));
    }
    const auto size = mix.integer(pair[0], pair_path + "[0]", kDeviceRange);
    if (!size) return size.error();
    const auto weight = mix.number(pair[1], pair_path + "[1]", kWeight);
    if (!weight) return weight.error();
    sizes.add(static_cast<int>(*size), *weight);
  }
  if (sizes.total() <= 0) return mix.error_at(path, "expected at least one weight above 0");
  return sizes;
}

// "duration": {"median_s": ..., "sigma": ...}
std::optional<Error> read_duration(const LocatedJson& mix, const json& value,
                                   const std::string& path, JobKind& kind) {
  if (!value.is_object()) {
    return mix.error_at(
        path, fmt::format("expected an object with median_s and sigma, not {}", shown(value)));
  }
  static const std::vector<std::string> kFields{"median_s", "sigma"};
  if (auto status = mix.only_fields(value, path, kFields); !status) return status.error();
  for (const std::string& field : kFields) {
    if (!value.contains(field)) {
      return mix.error_at(path, fmt::format("field '{}' is missing", field));
    }
  }
  const auto median = mix.number(value["median_s"], path + ".median_s", {1, 1e7});
  if (!median) return median.error();
  const auto sigma = mix.number(value["sigma"], path + ".sigma", {0, 10});
  if (!sigma) return sigma.error();
  kind.median_s = *median;
  kind.sigma = *sigma;
  return std::nullopt;
}

std::optional<Error> read_kind(const LocatedJson& mix, const json& value, const std::string& path,
                               JobMix& kinds) {
  if (!value.is_object()) {
    return mix.error_at(path, fmt::format("expected an object, not {}", shown(value)));
  }
  if (auto status = mix.only_fields(value, path, kind_fields()); !status) return status.error();
  if (value.contains("application") == value.contains("duration")) {
    return mix.error_at(path, "expected exactly one of 'application' and 'duration'");
  }
  JobKind kind;
  if (value.contains("application")) {
    const std::string field = path + ".application";
    auto name = mix.text(value["application"], field);
    if (!name) return name.error();
    if (const auto problem = name_problem(*name); !problem.empty()) {
      return mix.error_at(field, std::string(problem));
    }
    kind.application = std::move(*name);
  } else if (auto error = read_duration(mix, value["duration"], path + ".duration", kind)) {
    return error;
  }
  double weight = 1;
  if (value.contains("weight")) {
    const auto given = mix.number(value["weight"], path + ".weight", kWeight);
    if (!given) return given.error();
    weight = *given;
  }
  if (value.contains("devices")) {
    auto sizes = read_sizes(mix, value["devices"], path + ".devices");
    if (!sizes) return sizes.error();
    kind.devices = std::move(*sizes);
  } else {
    kind.devices.add(1, 1);
  }
  if (value.contains("batch_per_device")) {
    const std::string field = path + ".batch_per_device";
    if (kind.application.empty()) {
      return mix.error_at(field, "only a job with an application has a batch");
    }
    const auto batch = mix.integer(value["batch_per_device"], field, {1, 1e6});
    if (!batch) return batch.error();
    kind.batch_per_device = *batch;
  }
  kinds.add(std::move(kind), weight);
  return std::nullopt;
}

}  // namespace

Result<JobMix> parse_mix(const std::string& file, std::string_view text) {
  constexpr std::size_t kLargest = 1 << 20;
  if (text.size() > kLargest) {
    return invalid_input(fmt::format("{}:1:1: the file has {} bytes; expected a mix of at most {}",
                                     file, text.size(), kLargest));
  }
  const auto mix = LocatedJson::parse(file, text);
  if (!mix) return mix.error();
  const json& root = mix->root();
  if (!root.is_object()) return mix->error_at("", "expected a JSON object");
  if (auto status = mix->only_fields(root, "", top_fields()); !status) return status.error();
  if (!root.contains("applications")) {
    return mix->error_at("", "field 'applications' is missing");
  }
  const json& list = root["applications"];
  if (!list.is_array() || list.empty()) {
    return mix->error_at("applications", "expected a list with at least one kind of job");
  }
  JobMix kinds;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (auto error = read_kind(*mix, list[i], fmt::format("applications[{}]", i), kinds)) {
      return std::move(*error);
    }
  }
  if (kinds.total() <= 0) {
    return mix->error_at("applications", "expected at least one weight above 0");
  }
  return kinds;
}

// Shares of small, medium, large and very large jobs as in the Pollux paper's sample of the Philly
// trace: 72 %, 20 %, 6 % and 2 %.
std::string_view default_mix() {
  return R"({
  "applications": [
    {"application": "recommender", "weight": 36, "devices": [[1, 85], [2, 15]], "batch_per_device": 256},
    {"application": "resnet-small", "weight": 36, "devices": [[1, 70], [2, 20], [4, 10]], "batch_per_device": 128},
    {"application": "bert-tune", "weight": 10, "devices": [[1, 25], [2, 35], [4, 40]], "batch_per_device": 16},
    {"application": "speech", "weight": 10, "devices": [[2, 30], [4, 50], [8, 20]], "batch_per_device": 32},
    {"application": "detector", "weight": 6, "devices": [[4, 40], [8, 40], [16, 20]], "batch_per_device": 16},
    {"application": "resnet-large", "weight": 2, "devices": [[8, 40], [16, 60]], "batch_per_device": 256}
  ]
}
)";
}

}  // namespace rubato
