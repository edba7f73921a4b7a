// The protocol keeps its promises in a simulated world, whatever happens there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "membership/world.h"

namespace rubato::elastic::membership {
namespace {

using sim::Outcome;
using sim::Schedule;
using sim::World;

std::uint64_t first_seed() {
  const char* const seed = std::getenv("RUBATO_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10) * 1'000'000;
}

struct Size {
  int nodes;
  int workers;
  std::uint64_t schedules;
};

class Schedules : public testing::TestWithParam<Size> {};

TEST_P(Schedules, KeepAllPromises) {
  const auto [nodes, workers, schedules] = GetParam();
  constexpr int kFaults = 30;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + schedules; ++seed) {
    World world(sim::random_schedule(seed, nodes, workers, kFaults));
    const Outcome outcome = world.run();
    ASSERT_EQ(outcome.violation, "")
        << "build/bin/membership_sim --trace --seed " << seed << " --nodes " << nodes
        << " --workers " << workers << " --faults " << kFaults;
  }
}

// Small worlds find most of what can be found, and cost least.
INSTANTIATE_TEST_SUITE_P(Sizes, Schedules,
                         testing::Values(Size{1, 1, 10'000}, Size{1, 2, 20'000}, Size{1, 3, 15'000},
                                         Size{1, 6, 2'000}, Size{2, 2, 30'000}, Size{2, 4, 10'000},
                                         Size{3, 3, 8'000}, Size{3, 6, 5'000}),
                         [](const auto& size) {
                           return std::to_string(size.param.nodes) + "Nodes" +
                                  std::to_string(size.param.workers) + "Workers";
                         });

TEST(World, OneSeedIsOneHistory) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Schedule schedule = sim::random_schedule(seed, seed % 2 == 0 ? 1 : 2, 4, 30);
    const Outcome first = World(schedule).run();
    const Outcome second = World(schedule).run();
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_EQ(first.ended_at, second.ended_at) << "seed " << seed;
    EXPECT_EQ(first.views, second.views) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rubato::elastic::membership
