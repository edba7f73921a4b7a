// Logical workers are numbered 0..N-1. A worker hosts one contiguous range of them.
#pragma once

#include <compare>

namespace rubato::elastic {

struct LogicalRange {
  int begin = 0;
  int end = 0;  // one past the last

  constexpr int size() const { return end - begin; }
  constexpr bool contains(int logical) const { return begin <= logical && logical < end; }
  friend constexpr auto operator<=>(const LogicalRange&, const LogicalRange&) = default;
};

}  // namespace rubato::elastic
