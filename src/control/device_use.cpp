#include "control/device_use.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "control/json_fields.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kLargestJob = std::int64_t{1} << 31;

}  // namespace

json to_json(const DeviceUse& use) {
  json object = {{"index", use.index}, {"job", use.job}};
  if (use.utilisation) object["utilisation"] = *use.utilisation;
  if (use.memory_used) object["memory_used"] = *use.memory_used;
  if (use.memory) object["memory"] = *use.memory;
  return object;
}

Result<DeviceUse> device_use_from(const json& object, const std::string& node, int devices) {
  std::string problem;
  const auto whole = [&](const char* name, std::int64_t most) -> std::optional<std::int64_t> {
    const json* value = field_of(object, name);
    if (value == nullptr) return std::nullopt;
    const bool fits = value->is_number_integer() && value->get<double>() >= 0 &&
                      value->get<double>() <= static_cast<double>(most);
    if (fits) return value->get<std::int64_t>();
    problem = fmt::format("{}: expected a whole number from 0 to {}", name, most);
    return std::nullopt;
  };
  const auto index = whole("index", devices - 1);
  DeviceUse use{.node = node,
                .index = static_cast<int>(index.value_or(0)),
                .job = whole("job", kLargestJob).value_or(0),
                .memory_used = whole("memory_used", kMostBytes),
                .memory = whole("memory", kMostBytes)};
  if (!index && problem.empty()) problem = "index: missing";
  if (const json* value = field_of(object, "utilisation"); value != nullptr) {
    if (value->is_number() && value->get<double>() >= 0 && value->get<double>() <= 1) {
      use.utilisation = value->get<double>();
    } else {
      problem = "utilisation: expected a number from 0 to 1";
    }
  }
  if (!problem.empty()) {
    return invalid_input(fmt::format("use of a device of node {}: {}", node, problem));
  }
  return use;
}

}  // namespace rubato::control
