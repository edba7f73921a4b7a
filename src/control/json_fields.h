// Reads numbers from untrusted JSON. A missing value or one that is not a number counts as 0.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace rubato::control {

inline double number_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

inline std::int64_t whole_in(const nlohmann::json& json, const char* name) {
  return static_cast<std::int64_t>(number_in(json, name));
}

}  // namespace rubato::control
