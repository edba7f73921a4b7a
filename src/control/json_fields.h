// Reads fields of untrusted JSON. Nothing here throws: a value that is missing or of another type
// counts as 0 or "", and a number that does not fit is cut to the nearest one that does.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace rubato::control {

// Null if `json` is no object or has no such field.
inline const nlohmann::json* field_of(const nlohmann::json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

inline double number_in(const nlohmann::json& json, const char* name) {
  const nlohmann::json* field = field_of(json, name);
  if (field == nullptr || !field->is_number()) return 0;
  const auto number = field->get<double>();
  return std::isfinite(number) ? number : 0;
}

inline std::int64_t whole_in(const nlohmann::json& json, const char* name) {
  const nlohmann::json* field = field_of(json, name);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  if (field != nullptr && field->is_number_unsigned()) {
    const auto number = field->get<std::uint64_t>();
    return number > static_cast<std::uint64_t>(kMost) ? kMost : static_cast<std::int64_t>(number);
  }
  if (field != nullptr && field->is_number_integer()) return field->get<std::int64_t>();
  const double number = number_in(json, name);
  if (number >= static_cast<double>(kMost)) return kMost;
  if (number <= -static_cast<double>(kMost)) return -kMost;
  return static_cast<std::int64_t>(number);
}

inline std::string text_of(const nlohmann::json& json, const char* name) {
  const nlohmann::json* field = field_of(json, name);
  return field != nullptr && field->is_string() ? field->get<std::string>() : "";
}

}  // namespace rubato::control
