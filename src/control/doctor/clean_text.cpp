#include "control/doctor/clean_text.h"

#include <fmt/format.h>

#include "base/text.h"

namespace rubato::control::doctor {

std::string clean(std::string_view text) {
  constexpr std::size_t kMost = 120;
  std::string result;
  for (const char c : trim(text)) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (blank && result.ends_with(' ')) continue;
    if (result.size() == kMost) return result + "...";
    result += blank ? ' ' : (c > ' ' && c < 127 ? c : '?');
  }
  return result;
}

std::string first_line(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (!trim(line).empty()) return clean(line);
  }
  return "no output";
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 999.5e3) return fmt::format("{:.0f} kB", value / 1e3);
  if (value < 999.5e6) return fmt::format("{:.0f} MB", value / 1e6);
  if (value < 999.5e9) return fmt::format("{:.1f} GB", value / 1e9);
  return fmt::format("{:.1f} TB", value / 1e12);
}

}  // namespace rubato::control::doctor
