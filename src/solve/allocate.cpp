#include "solve/allocate.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace rubato {

namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

}  // namespace

Division allocate(std::span<const std::vector<Choice>> tables, int capacity) {
  if (capacity < 0) return {};
  const auto width = static_cast<std::size_t>(capacity) + 1;
  // best[c]: the largest value of the jobs so far within c units; taken[j][c]: what job j takes
  // there.
  std::vector<double> best(width, 0.0);
  std::vector<double> next(width);
  std::vector<std::vector<std::int32_t>> taken(tables.size(), std::vector<std::int32_t>(width, -1));
  for (std::size_t j = 0; j < tables.size(); ++j) {
    std::fill(next.begin(), next.end(), kImpossible);
    for (std::size_t k = 0; k < tables[j].size(); ++k) {
      const auto size = static_cast<std::size_t>(tables[j][k].size);
      for (std::size_t c = size; c < width; ++c) {
        const double value = best[c - size] + tables[j][k].value;
        if (value > next[c]) {
          next[c] = value;
          taken[j][c] = static_cast<std::int32_t>(k);
        }
      }
    }
    best.swap(next);
  }
  Division division;
  division.value = best[width - 1];
  division.feasible = division.value > kImpossible;
  if (!division.feasible) return {};
  division.choice.resize(tables.size());
  std::size_t left = width - 1;
  for (std::size_t j = tables.size(); j-- > 0;) {
    const std::int32_t k = taken[j][left];
    division.choice[j] = k;
    left -= static_cast<std::size_t>(tables[j][static_cast<std::size_t>(k)].size);
  }
  return division;
}

}  // namespace rubato
