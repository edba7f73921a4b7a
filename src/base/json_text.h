// JSON to text and back. The templates behind both are large, so they are compiled once, here, and
// not in every file that reads or writes a document.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace rubato {

// Returns a discarded value (is_discarded()) if the text is not JSON.
nlohmann::json parse_json(std::string_view text);

// Throws nlohmann::json::parse_error, which has the position, if the text is not JSON.
nlohmann::json parse_json_or_throw(std::string_view text);

// One line. Bytes that are not UTF-8 become U+FFFD.
std::string compact_json(const nlohmann::json& value);

// Two spaces per level, no newline at the end. Bytes that are not UTF-8 become U+FFFD.
std::string indented_json(const nlohmann::json& value);

}  // namespace rubato
