// Text of other programs and files, made fit for one line of a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rubato::control::doctor {

// At most 120 characters; whatever is not printable ASCII becomes '?', white space one blank.
std::string clean(std::string_view text);
// The first line that is not empty, cleaned; "no output" if there is none.
std::string first_line(std::string_view text);
// "64 MB", "23.5 GB" (powers of 1000).
std::string bytes_text(std::uint64_t bytes);

}  // namespace rubato::control::doctor
