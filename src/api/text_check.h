// Checks of text from outside.
#pragma once

#include <string_view>

namespace rubato::api {

// Well-formed, without surrogates and overlong forms.
bool is_utf8(std::string_view text);
// How deep braces and brackets (outside strings) nest; works on text that is no JSON, too.
int json_depth(std::string_view text);

}  // namespace rubato::api
