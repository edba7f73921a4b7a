// Hosting, compared with all possible divisions.
#include "elastic/data/hosting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/random.h"
#include "elastic/data/reduction_tree.h"

namespace rubato::elastic {
namespace {

using Score = std::tuple<double, std::size_t, std::vector<int>>;  // last: ends of the ranges

Score score_of(int n, const std::vector<LogicalRange>& ranges, const std::vector<double>& seconds) {
  double finish = 0;
  std::size_t roots = 0;
  std::vector<int> ends;
  for (std::size_t w = 0; w < ranges.size(); ++w) {
    finish = std::max(finish, ranges[w].size() * seconds[w]);
    roots += subtree_roots(n, ranges[w]).size();
    ends.push_back(ranges[w].end);
  }
  return {finish, roots, ends};
}

void try_all(int n, const std::vector<double>& seconds, std::vector<LogicalRange>& ranges,
             std::vector<Score>& scores) {
  const int begin = ranges.empty() ? 0 : ranges.back().end;
  if (ranges.size() == seconds.size()) {
    if (begin == n) scores.push_back(score_of(n, ranges, seconds));
    return;
  }
  for (int end = begin + 1; end <= n; ++end) {
    ranges.push_back({begin, end});
    try_all(n, seconds, ranges, scores);
    ranges.pop_back();
  }
}

TEST(Hosting, IsTheBestOfAllDivisions) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const int n = random.between(1, 12);
    const int workers = random.between(1, std::min(n, 5));
    std::vector<double> seconds(static_cast<std::size_t>(workers));
    for (double& each : seconds) {
      // Often equal or in simple ratios, so that ties are common.
      each = random.chance(0.5) ? random.between(1, 3) * 0.1 : random.uniform() + 0.01;
    }
    std::vector<LogicalRange> ranges;
    std::vector<Score> scores;
    try_all(n, seconds, ranges, scores);
    const auto divided = divide_logical_workers(n, seconds);
    EXPECT_EQ(divided.front().begin, 0);
    for (std::size_t w = 1; w < divided.size(); ++w) {
      EXPECT_EQ(divided[w].begin, divided[w - 1].end);
    }
    EXPECT_EQ(score_of(n, divided, seconds), *std::min_element(scores.begin(), scores.end()));
  }
}

TEST(Hosting, EqualWorkersGetAlignedRanges) {
  using Ranges = std::vector<LogicalRange>;
  EXPECT_EQ(divide_logical_workers(8, std::vector<double>(2, 1.0)), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(divide_logical_workers(8, std::vector<double>(3, 1.0)),
            (Ranges{{0, 2}, {2, 5}, {5, 8}}));
  EXPECT_EQ(divide_logical_workers(5, std::vector<double>(5, 0.25)),
            (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  EXPECT_EQ(divide_logical_workers(1, std::vector<double>{3.0}), (Ranges{{0, 1}}));
}

TEST(Hosting, ASlowWorkerHostsFewer) {
  const std::vector<double> seconds{1.0, 3.0, 1.0};
  const auto ranges = divide_logical_workers(7, seconds);
  EXPECT_EQ(ranges[1].size(), 1);
  EXPECT_EQ(ranges[0].size(), 3);
}

TEST(Hosting, OnlyRatiosMatter) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    std::vector<double> seconds;
    std::vector<double> scaled;
    for (int w = 0; w < 6; ++w) {
      seconds.push_back(random.between(1, 9));
      scaled.push_back(seconds.back() * 0x1.0p-20);
    }
    EXPECT_EQ(divide_logical_workers(64, seconds), divide_logical_workers(64, scaled))
        << "seed " << seed;
  }
}

TEST(Hosting, ManyLogicalWorkersAreDivided) {
  std::vector<double> seconds(8, 0.01);
  seconds[3] = 0.5;
  const auto ranges = divide_logical_workers(512, seconds);
  EXPECT_EQ(ranges.front().begin, 0);
  EXPECT_EQ(ranges.back().end, 512);
  for (std::size_t w = 1; w < ranges.size(); ++w) EXPECT_EQ(ranges[w].begin, ranges[w - 1].end);
}

}  // namespace
}  // namespace rubato::elastic
