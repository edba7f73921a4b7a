// Checks of untrusted text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rubato::api {

// True for well-formed UTF-8 without surrogates and overlong forms.
bool is_utf8(std::string_view text);
// How deeply braces and brackets nest outside strings. Also works on text that is not JSON.
int json_depth(std::string_view text);
// A name that an object of this JSON has twice. Readers disagree about which of the two counts.
std::optional<std::string> repeated_field(std::string_view text);

}  // namespace rubato::api
