#include "sched/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sched/tiered_policy.h"

namespace rubato {

namespace {

Result<ParamValue> parse_value(const PolicyInfo& info, const ParamSpec& spec,
                               const std::string& text) {
  const auto refused = [&] {
    return invalid_input(
        fmt::format("{}.{}={}: expected {}", info.name, spec.name, text, allowed_values(spec)));
  };
  const auto in_range = [&](double value) { return value >= spec.low && value <= spec.high; };
  if (std::holds_alternative<bool>(spec.default_value)) {
    if (text == "true" || text == "1") return ParamValue(true);
    if (text == "false" || text == "0") return ParamValue(false);
    return refused();
  }
  if (std::holds_alternative<std::int64_t>(spec.default_value)) {
    const auto value = parse_int(text);
    if (!value || !in_range(static_cast<double>(*value))) return refused();
    return ParamValue(*value);
  }
  if (std::holds_alternative<double>(spec.default_value)) {
    const auto value = parse_double(text);
    if (!value || !in_range(*value)) return refused();
    return ParamValue(*value);
  }
  if (std::find(spec.choices.begin(), spec.choices.end(), text) == spec.choices.end()) {
    return refused();
  }
  return ParamValue(text);
}

}  // namespace

const ParamValue& Params::get(std::string_view name) const {
  const auto found = values_.find(name);
  RUBATO_CHECK(found != values_.end(), "a policy reads a parameter that it did not register");
  return found->second;
}

bool PolicyInfo::needs_knowledge(Knowledge knowledge) const {
  return std::find(needs.begin(), needs.end(), knowledge) != needs.end();
}

Result<const PolicyInfo*> find_policy(std::string_view name) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policy_table()) {
    if (info.name == name) return &info;
    names.push_back(info.name);
  }
  return Error{ErrorCode::kNotFound, fmt::format("unknown policy '{}'{}; policies: {}", name,
                                                 did_you_mean(name, names), join(names, ", "))};
}

Result<std::unique_ptr<Policy>> make_policy(const PolicyInfo& info, const Settings& settings,
                                            std::uint64_t seed) {
  std::map<std::string, ParamValue, std::less<>> values;
  std::vector<std::string> names;
  for (const ParamSpec& spec : info.params) {
    names.push_back(spec.name);
    values.emplace(spec.name, spec.default_value);
  }
  for (const auto& setting : settings) {
    const std::string& name = setting.first;
    const auto spec = std::find_if(info.params.begin(), info.params.end(),
                                   [&](const ParamSpec& p) { return p.name == name; });
    if (spec == info.params.end()) {
      return invalid_input(fmt::format("{}.{}: unknown parameter{}; parameters of {}: {}",
                                       info.name, name, did_you_mean(name, names), info.name,
                                       names.empty() ? "none" : join(names, ", ")));
    }
    auto value = parse_value(info, *spec, setting.second);
    if (!value) return value.error();
    values.insert_or_assign(name, std::move(*value));
  }
  const Params params(std::move(values));
  std::unique_ptr<Policy> tiered = std::make_unique<TieredPolicy>(
      [make = info.make, params, seed] { return make(params, Random(seed)); });
  return tiered;
}

std::string to_string(const ParamValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, bool>) {
          return v ? "true" : "false";
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

std::string allowed_values(const ParamSpec& spec) {
  if (std::holds_alternative<bool>(spec.default_value)) return "true or false";
  if (std::holds_alternative<std::string>(spec.default_value)) {
    return "one of " + join(spec.choices, ", ");
  }
  const char* kind = std::holds_alternative<double>(spec.default_value) ? "" : "a whole number ";
  return fmt::format("{}{} to {}", kind, spec.low, spec.high);
}

std::string_view to_string(Knowledge knowledge) {
  switch (knowledge) {
    case Knowledge::kNothing:
      return "nothing beyond the job spec";
    case Knowledge::kProfiledSpeed:
      return "profiled step times";
    case Knowledge::kRemainingWork:
      return "remaining work (an oracle in the simulator)";
  }
  return "?";
}

}  // namespace rubato
