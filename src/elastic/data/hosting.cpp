#include "elastic/data/hosting.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "elastic/data/reduction_tree.h"

namespace rubato::elastic {

namespace {

// The number of logical workers each worker finishes within `seconds`, at most `most`. The products
// are the same as in finish_seconds(), so rounding cannot make them differ.
std::vector<int> capacities(std::span<const double> seconds_per_logical, double seconds, int most) {
  std::vector<int> capacity;
  for (const double each : seconds_per_logical) {
    int low = 0;
    int high = most;
    while (low < high) {
      const int mid = low + (high - low + 1) / 2;
      if (mid * each <= seconds) {
        low = mid;
      } else {
        high = mid - 1;
      }
    }
    capacity.push_back(low);
  }
  return capacity;
}

bool suffices(const std::vector<int>& capacity, int logical_workers) {
  std::int64_t sum = 0;
  for (const int c : capacity) {
    if (c < 1) return false;
    sum += c;
  }
  return sum >= logical_workers;
}

// The earliest time by which all workers can be done.
double finish_seconds(int logical_workers, std::span<const double> seconds_per_logical) {
  const int most = logical_workers - static_cast<int>(seconds_per_logical.size()) + 1;
  std::vector<double> candidates;
  for (const double each : seconds_per_logical) {
    for (int k = 1; k <= most; ++k) candidates.push_back(k * each);
  }
  std::sort(candidates.begin(), candidates.end());
  return *std::partition_point(candidates.begin(), candidates.end(), [&](double seconds) {
    return !suffices(capacities(seconds_per_logical, seconds, most), logical_workers);
  });
}

}  // namespace

std::vector<LogicalRange> divide_logical_workers(int logical_workers,
                                                 std::span<const double> seconds_per_logical) {
  const std::size_t workers = seconds_per_logical.size();
  RUBATO_CHECK(workers >= 1 && workers <= static_cast<std::size_t>(logical_workers),
               "every worker needs at least one logical worker");
  RUBATO_CHECK(std::ranges::all_of(
                   seconds_per_logical,
                   [](double s) { return s > 0 && s < std::numeric_limits<double>::max() / 1e9; }),
               "seconds per logical worker must be positive and finite");
  const auto n = static_cast<std::size_t>(logical_workers);
  const std::vector<int> capacity = capacities(
      seconds_per_logical, finish_seconds(logical_workers, seconds_per_logical), logical_workers);

  // fewest[w][b]: the fewest roots exported by workers w and up if they host [b, N).
  constexpr int kImpossible = std::numeric_limits<int>::max() / 2;
  std::vector<std::vector<int>> fewest(workers + 1, std::vector<int>(n + 1, kImpossible));
  fewest[workers][n] = 0;
  const auto cost = [&](std::size_t w, std::size_t begin, std::size_t end) {
    if (fewest[w + 1][end] == kImpossible) return kImpossible;
    return fewest[w + 1][end] +
           count_subtree_roots(logical_workers, {static_cast<int>(begin), static_cast<int>(end)});
  };
  for (std::size_t w = workers; w-- > 0;) {
    for (std::size_t begin = w; begin < n; ++begin) {
      const std::size_t last = std::min(n, begin + static_cast<std::size_t>(capacity[w]));
      for (std::size_t end = begin + 1; end <= last; ++end) {
        fewest[w][begin] = std::min(fewest[w][begin], cost(w, begin, end));
      }
    }
  }
  std::vector<LogicalRange> ranges;
  std::size_t begin = 0;
  for (std::size_t w = 0; w < workers; ++w) {
    std::size_t end = begin + 1;
    while (cost(w, begin, end) != fewest[w][begin]) ++end;
    ranges.push_back({static_cast<int>(begin), static_cast<int>(end)});
    begin = end;
  }
  return ranges;
}

}  // namespace rubato::elastic
