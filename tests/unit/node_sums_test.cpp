// What nodes send each other: few sums, each a node of the tree, from which every node makes the
// bits of the plain tree.
#include "elastic/data/node_sums.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/random.h"

namespace rubato::elastic {
namespace {

constexpr std::size_t kFloats = 19;
using Values = std::vector<float>;

Values tree_sum(const std::vector<Values>& gradients, int begin, int end) {
  if (end - begin == 1) return gradients[static_cast<std::size_t>(begin)];
  int left = 1;
  while (2 * left < end - begin) left *= 2;
  Values sum = tree_sum(gradients, begin, begin + left);
  const Values right = tree_sum(gradients, begin + left, end);
  for (std::size_t i = 0; i < kFloats; ++i) sum[i] += right[i];
  return sum;
}

std::vector<std::uint32_t> bits(const Values& values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

struct World {
  int logical_workers = 1;
  std::vector<LogicalRange> hosts;              // by position
  std::vector<std::vector<std::size_t>> nodes;  // positions
};

// Members of a node are usually next to each other; sometimes they are not.
World random_world(Random& random) {
  World world{.logical_workers = random.between(1, 40), .hosts = {}, .nodes = {}};
  const double cut = random.uniform();
  for (int begin = 0, end = 1; end <= world.logical_workers; ++end) {
    if (end < world.logical_workers && !random.chance(cut)) continue;
    world.hosts.push_back({begin, end});
    begin = end;
  }
  const std::size_t nodes = 1 + random.below(5);
  const bool scattered = random.chance(0.3);
  std::map<std::size_t, std::vector<std::size_t>> positions;
  for (std::size_t i = 0; i < world.hosts.size(); ++i) {
    const std::size_t node = scattered ? random.below(static_cast<std::uint32_t>(nodes))
                                       : i * nodes / world.hosts.size();
    positions[node].push_back(i);
  }
  for (auto& [node, members] : positions) world.nodes.push_back(std::move(members));
  return world;
}

TEST(NodeSums, GiveTheBitsOfThePlainTree) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const World world = random_world(random);
    std::vector<Values> gradients(static_cast<std::size_t>(world.logical_workers));
    for (Values& gradient : gradients) {
      for (std::size_t i = 0; i < kFloats; ++i) {
        gradient.push_back(
            static_cast<float>(std::ldexp(random.uniform() * 2 - 1, random.between(-12, 12))));
      }
    }
    std::map<int, std::pair<LogicalRange, Values>> sent;  // by their beginnings
    for (const std::vector<std::size_t>& positions : world.nodes) {
      std::size_t exported = 0;
      std::size_t sums = 0;
      for (const NodeSum& sum : node_sums(world.logical_workers, world.hosts, positions)) {
        ++sums;
        exported += sum.sources.size();
        std::vector<Values> parts;
        for (const NodeSum::Source& source : sum.sources) {
          const HostProgram host =
              host_program(world.logical_workers, world.hosts[source.position]);
          const HostRoot& root = host.roots.at(static_cast<std::size_t>(source.buffer));
          EXPECT_EQ(root.buffer, source.buffer);
          parts.push_back(tree_sum(gradients, root.range.begin, root.range.end));
          EXPECT_LE(source.position, sum.last());
        }
        std::vector<const float*> inputs;
        inputs.reserve(parts.size());
        for (const Values& part : parts) inputs.push_back(part.data());
        Values out(kFloats, std::nanf(""));
        sum.program.run(inputs, 1.0F, out.data(), 0, kFloats);
        EXPECT_EQ(bits(out), bits(tree_sum(gradients, sum.range.begin, sum.range.end)));
        EXPECT_TRUE(sent.try_emplace(sum.range.begin, sum.range, out).second);
      }
      std::size_t roots = 0;
      for (const std::size_t position : positions) {
        roots += subtree_roots(world.logical_workers, world.hosts[position]).size();
      }
      EXPECT_EQ(exported, roots);  // everything is in one sum
      EXPECT_LE(sums, roots);
    }
    std::vector<LogicalRange> ranges;
    std::vector<const float*> inputs;
    for (const auto& [begin, sum] : sent) {
      ranges.push_back(sum.first);
      inputs.push_back(sum.second.data());
    }
    const Result<SumProgram> rest = SumProgram::make(world.logical_workers, ranges);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    Values out(kFloats, std::nanf(""));
    rest->run(inputs, 0.5F, out.data(), 0, kFloats);
    Values expected = tree_sum(gradients, 0, world.logical_workers);
    for (float& value : expected) value *= 0.5F;
    EXPECT_EQ(bits(out), bits(expected));
  }
}

TEST(NodeSums, AlignedNodesSendOneSumEach) {
  for (const int nodes : {2, 4, 8}) {
    for (const int members : {1, 2, 4}) {
      const int workers = nodes * members;
      std::vector<LogicalRange> hosts;
      hosts.reserve(static_cast<std::size_t>(workers));
      for (int i = 0; i < workers; ++i) hosts.push_back({2 * i, 2 * i + 2});
      for (int node = 0; node < nodes; ++node) {
        std::vector<std::size_t> positions;
        positions.reserve(static_cast<std::size_t>(members));
        for (int i = 0; i < members; ++i) {
          positions.push_back(static_cast<std::size_t>(node * members + i));
        }
        const std::vector<NodeSum> sums = node_sums(2 * workers, hosts, positions);
        ASSERT_EQ(sums.size(), 1u);
        EXPECT_EQ(sums.front().last(), positions.back());
        EXPECT_EQ(sums.front().place().position, positions.front());
      }
    }
  }
}

// Three members on two logical workers each, of eight: [0, 6) is [0, 4) and [4, 6). The first of
// the sums exists, and is sent, before the third member has arrived.
TEST(NodeSums, ASumIsSentWhenItsLastMemberHasArrived) {
  const std::vector<LogicalRange> hosts{{0, 2}, {2, 4}, {4, 6}, {6, 8}};
  const std::vector<std::size_t> positions{0, 1, 2};
  const std::vector<NodeSum> sums = node_sums(8, hosts, positions);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].range, (LogicalRange{0, 4}));
  EXPECT_EQ(sums[0].last(), 1u);
  EXPECT_EQ(sums[1].range, (LogicalRange{4, 6}));
  EXPECT_EQ(sums[1].last(), 2u);
}

}  // namespace
}  // namespace rubato::elastic
