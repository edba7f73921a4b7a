// The fixed tree: whichever worker hosts what, the sum has the bits of the plain recursive sum.
#include "elastic/data/reduction_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"

namespace rubato::elastic {
namespace {

using Gradients = std::vector<std::vector<float>>;  // by logical worker

// Values of very different magnitude and both signs, so that any other order of additions shows.
Gradients random_gradients(Random& random, int logical_workers, std::size_t size) {
  Gradients gradients(static_cast<std::size_t>(logical_workers));
  for (auto& gradient : gradients) {
    for (std::size_t i = 0; i < size; ++i) {
      gradient.push_back(
          static_cast<float>(std::ldexp(random.uniform() * 2 - 1, random.between(-12, 12))));
    }
  }
  return gradients;
}

// The definition in the header, literally, for one element.
float plain_sum(const Gradients& gradients, int a, int b, std::size_t i) {
  if (b - a == 1) return gradients[static_cast<std::size_t>(a)][i];
  int h = 1;
  while (2 * h < b - a) h *= 2;
  const float left = plain_sum(gradients, a, a + h, i);
  const float right = plain_sum(gradients, a + h, b, i);
  return left + right;
}

std::vector<float> plain_sums(const Gradients& gradients, float scale) {
  std::vector<float> sums(gradients[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = scale * plain_sum(gradients, 0, static_cast<int>(gradients.size()), i);
  }
  return sums;
}

bool same_bits(std::span<const float> x, std::span<const float> y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

bool is_node(LogicalRange wanted, LogicalRange node) {
  if (wanted == node) return true;
  if (node.size() == 1) return false;
  int h = 1;
  while (2 * h < node.size()) h *= 2;
  return is_node(wanted, {node.begin, node.begin + h}) ||
         is_node(wanted, {node.begin + h, node.end});
}

std::vector<LogicalRange> random_partition(Random& random, int logical_workers) {
  std::vector<LogicalRange> hosts;
  const double cut = random.uniform();
  int begin = 0;
  for (int i = 1; i <= logical_workers; ++i) {
    if (i == logical_workers || random.chance(cut)) {
      hosts.push_back({begin, i});
      begin = i;
    }
  }
  return hosts;
}

void run_host(const HostProgram& program, const Gradients& gradients,
              std::vector<std::vector<float>>& exported) {
  const std::size_t size = gradients[0].size();
  std::vector<std::vector<float>> buffers(static_cast<std::size_t>(program.buffers),
                                          std::vector<float>(size, std::nanf("")));
  const auto buffer = [&](int index) -> float* {
    return buffers.at(static_cast<std::size_t>(index)).data();
  };
  for (const HostStep& step : program.steps) {
    const auto& gradient = gradients[static_cast<std::size_t>(step.logical)];
    if (step.accumulate) {
      add_into(buffer(step.buffer), gradient.data(), size);
    } else {
      std::copy(gradient.begin(), gradient.end(), buffer(step.buffer));
    }
    for (const auto& merge : step.merges) add_into(buffer(merge.into), buffer(merge.from), size);
  }
  for (const HostRoot& root : program.roots) {
    exported.push_back(buffers.at(static_cast<std::size_t>(root.buffer)));
  }
}

std::vector<const float*> pointers_to(const std::vector<std::vector<float>>& arrays) {
  std::vector<const float*> pointers(arrays.size());
  std::transform(arrays.begin(), arrays.end(), pointers.begin(),
                 [](const std::vector<float>& array) { return array.data(); });
  return pointers;
}

TEST(ReductionTree, AnyHostingGivesTheBitsOfThePlainTree) {
  for (int n = 1; n <= 40; ++n) {
    for (std::uint64_t trial = 0; trial < 12; ++trial) {
      const std::uint64_t seed = static_cast<std::uint64_t>(n) * 1000 + trial;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", N " << n);
      Random random(seed);
      const Gradients gradients = random_gradients(random, n, 37);
      const float scale = trial % 2 == 0 ? 1.0F / static_cast<float>(n) : 1.0F;
      std::vector<LogicalRange> roots;
      std::vector<std::vector<float>> exported;
      for (const LogicalRange hosted : random_partition(random, n)) {
        const HostProgram program = host_program(n, hosted);
        ASSERT_EQ(program.steps.size(), static_cast<std::size_t>(hosted.size()));
        for (int i = 0; i < hosted.size(); ++i) {
          EXPECT_EQ(program.steps[static_cast<std::size_t>(i)].logical, hosted.begin + i);
        }
        const int log2 = static_cast<int>(std::bit_width(static_cast<unsigned>(hosted.size() - 1)));
        EXPECT_LE(program.buffers, std::max(1, log2 + static_cast<int>(program.roots.size()) - 1));
        run_host(program, gradients, exported);
        for (const HostRoot& root : program.roots) roots.push_back(root.range);
      }
      const auto program = SumProgram::make(n, roots);
      ASSERT_TRUE(program.ok()) << program.error().message;
      ASSERT_EQ(program->inputs(), exported.size());
      const std::vector<const float*> inputs = pointers_to(exported);
      const std::vector<float> expected = plain_sums(gradients, scale);
      std::vector<float> out(expected.size(), std::nanf(""));
      program->run(inputs, scale, out.data(), 0, 20);
      program->run(inputs, scale, out.data(), 20, out.size());
      EXPECT_TRUE(same_bits(out, expected));
      // In place, into any of the inputs.
      const std::size_t into = random.below(static_cast<std::uint32_t>(exported.size()));
      program->run(inputs, scale, exported[into].data(), 0, out.size());
      EXPECT_TRUE(same_bits(exported[into], expected));
    }
  }
}

TEST(ReductionTree, AWholeTreeNeedsLog2Buffers) {
  for (int n = 1; n <= 300; ++n) {
    const HostProgram program = host_program(n, {0, n});
    const int log2 = static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1)));
    EXPECT_LE(program.buffers, std::max(1, log2)) << n;
    ASSERT_EQ(program.roots.size(), 1U);
    EXPECT_EQ(program.roots[0].buffer, 0);
  }
  EXPECT_EQ(host_program(8, {0, 8}).buffers, 3);
  EXPECT_EQ(host_program(2, {0, 2}).buffers, 1);
}

TEST(ReductionTree, RootsAreMaximalNodesThatPartitionTheHostedRange) {
  for (int n = 1; n <= 40; ++n) {
    for (int begin = 0; begin < n; ++begin) {
      for (int end = begin + 1; end <= n; ++end) {
        const auto roots = subtree_roots(n, {begin, end});
        EXPECT_EQ(count_subtree_roots(n, {begin, end}), static_cast<int>(roots.size()));
        int at = begin;
        for (const LogicalRange root : roots) {
          EXPECT_EQ(root.begin, at);
          at = root.end;
          EXPECT_TRUE(is_node(root, {0, n}));
          // No node inside the range contains this one and more.
          for (int a = begin; a <= root.begin; ++a) {
            for (int b = root.end; b <= end; ++b) {
              if (LogicalRange{a, b} != root) {
                EXPECT_FALSE(is_node({a, b}, {0, n}));
              }
            }
          }
        }
        EXPECT_EQ(at, end);
        EXPECT_LE(static_cast<double>(roots.size()), std::max(1.0, 2 * std::log2(n)));
      }
    }
    EXPECT_TRUE(subtree_roots(n, {n, n}).empty());
  }
}

TEST(ReductionTree, LongSlicesAreSummedInChunksWithTheSameBits) {
  Random random(7);
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 64, 100}) {
    const Gradients gradients = random_gradients(random, n, 5003);
    std::vector<LogicalRange> roots;
    std::vector<const float*> inputs;
    for (int i = 0; i < n; ++i) {
      roots.push_back({i, i + 1});
      inputs.push_back(gradients[static_cast<std::size_t>(i)].data());
    }
    const auto program = SumProgram::make(n, roots);
    ASSERT_TRUE(program.ok());
    const std::vector<float> expected = plain_sums(gradients, 0.3F);
    std::vector<float> out(expected.size(), 9);
    program->run(inputs, 0.3F, out.data(), 17, 4990);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float wanted = i >= 17 && i < 4990 ? expected[i] : 9;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(wanted))
          << "N " << n << ", element " << i;
    }
    program->run(inputs, 0.3F, out.data(), 5, 5);  // nothing
  }
}

TEST(ReductionTree, FourRootsInAnotherShapeAreNotMistakenForTwoPairs) {
  const std::vector<LogicalRange> roots{{0, 2}, {2, 3}, {3, 4}, {4, 5}};
  Random random(3);
  const Gradients gradients = random_gradients(random, 5, 64);
  std::vector<std::vector<float>> exported;
  run_host(host_program(5, {0, 2}), gradients, exported);
  for (int i = 2; i < 5; ++i) run_host(host_program(5, {i, i + 1}), gradients, exported);
  const std::vector<const float*> inputs = pointers_to(exported);
  std::vector<float> out(64);
  SumProgram::make(5, roots)->run(inputs, 1, out.data(), 0, 64);
  EXPECT_TRUE(same_bits(out, plain_sums(gradients, 1)));
}

TEST(ReductionTree, RootsThatAreNoPartitionIntoNodesAreRefused) {
  const auto refused = [](int n, const std::vector<LogicalRange>& roots) {
    const auto program = SumProgram::make(n, roots);
    return program.ok() ? std::string("(accepted)") : program.error().message;
  };
  EXPECT_EQ(refused(4, {{0, 2}, {2, 4}}), "(accepted)");
  EXPECT_NE(refused(0, {}).find("at least one"), std::string::npos);
  EXPECT_NE(refused(4, {}).find("end before logical worker 0"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 2}}).find("end before logical worker 2"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 3}, {3, 4}}).find("sum 0 covers [0, 3)"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 1}, {1, 3}, {3, 4}}).find("sum 1 covers [1, 3)"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 2}, {3, 4}}).find("sum 1 covers [3, 4)"), std::string::npos);
  EXPECT_NE(refused(4, {{2, 4}, {0, 2}}).find("sum 0"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 4}, {4, 5}}).find("remove it"), std::string::npos);
  EXPECT_NE(refused(4, {{0, 0}, {0, 4}}).find("sum 0"), std::string::npos);
  EXPECT_NE(refused(2, {{-1, 1}, {1, 2}}).find("sum 0"), std::string::npos);
}

TEST(ReductionTree, SlicesPartitionTheGradientAtCacheLines) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                                 std::size_t{17}, std::size_t{1000}, std::size_t{123457}}) {
    for (int workers = 1; workers <= 9; ++workers) {
      std::size_t at = 0;
      for (int p = 0; p < workers; ++p) {
        const Slice slice = owned_slice(size, workers, p);
        EXPECT_EQ(slice.begin, at);
        EXPECT_LE(slice.begin, slice.end);
        EXPECT_TRUE(slice.end % 16 == 0 || slice.end == size);
        EXPECT_LE(slice.end - slice.begin, size / static_cast<std::size_t>(workers) + 32);
        at = slice.end;
      }
      EXPECT_EQ(at, size);
    }
  }
}

}  // namespace
}  // namespace rubato::elastic
