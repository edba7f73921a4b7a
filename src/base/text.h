// Small text helpers: splitting, strict number parsing, nearest valid names for error messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rubato {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);

// The whole text must be one number. Surrounding blanks, trailing characters, "nan" and "inf" are
// refused.
std::optional<double> parse_double(std::string_view text);
std::optional<std::int64_t> parse_int(std::string_view text);

// The candidate with the smallest edit distance, or "" if none is close enough to be what was
// meant.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);
// "1 worker", "2 workers"
std::string counted(std::int64_t count, std::string_view noun);
// join({"a", "b", "c"}, ", ") is "a, b, c".
std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace rubato
