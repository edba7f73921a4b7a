#include "base/names.h"

#include <algorithm>

namespace rubato {

std::string_view name_problem(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  if (name.empty()) return "expected a name, but it is empty";
  if (name.size() > kLongest) return "expected a name of at most 200 characters";
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != ',' && c != '"' && c != '\\';
  });
  return plain ? "" : "expected printable ASCII characters except comma, quote and backslash";
}

}  // namespace rubato
