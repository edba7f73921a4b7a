// Bytes as text (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rubato {

std::string base64(std::string_view bytes);
// Strict: nothing but the alphabet and the padding that is due.
std::optional<std::string> parse_base64(std::string_view text);

}  // namespace rubato
