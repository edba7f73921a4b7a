#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace rubato {

using nlohmann::json;

json parse_json(std::string_view text) { return json::parse(text, nullptr, false); }

json parse_json_or_throw(std::string_view text) { return json::parse(text); }

std::string compact_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string indented_json(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace rubato
