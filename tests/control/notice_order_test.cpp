#include "control/notice_order.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace rubato::control {
namespace {

JobPlacement held_on(const std::map<std::string, int>& devices) {
  JobPlacement placement;
  for (const auto& [node, count] : devices) {
    if (count > 0) placement.push_back({.node = node, .device_type = "cpu", .devices = count});
  }
  return placement;
}

Notice held_notice(JobNumber job, JobPlacement nodes) {
  Notice notice{.job = job};
  notice.devices = devices_on(nodes);
  notice.nodes = std::move(nodes);
  return notice;
}

void put_job(State& state, JobNumber number, const JobPlacement& nodes) {
  JobRecord& job = state.jobs[number];
  job.number = number;
  job.held = devices_on(nodes);
  job.held_nodes = nodes;
}

std::vector<std::pair<JobNumber, int>> held_in(const std::vector<Notice>& notices) {
  std::vector<std::pair<JobNumber, int>> all;
  for (const Notice& notice : notices) all.emplace_back(notice.job, notice.devices);
  return all;
}

// A node told that its processes were gone and had begun again, and then that they were gone.
TEST(NoticeOrder, OfWhatAJobHoldsOnlyTheNewestCounts) {
  State state;
  put_job(state, 1, held_on({{"a", 1}, {"b", 1}}));
  const auto ordered = in_recorded_order(
      {held_notice(1, held_on({{"a", 1}})), held_notice(1, held_on({{"a", 1}, {"b", 1}})),
       held_notice(1, held_on({{"a", 1}}))},
      state);
  EXPECT_EQ(held_in(ordered), (std::vector<std::pair<JobNumber, int>>{{1, 1}}));
}

TEST(NoticeOrder, DevicesAreGivenBackBeforeOthersTakeThem) {
  State state;
  put_job(state, 1, held_on({{"a", 2}}));
  put_job(state, 2, held_on({{"b", 2}}));
  put_job(state, 3, {});
  const auto ordered = in_recorded_order(
      {held_notice(3, held_on({{"b", 1}})), held_notice(1, held_on({{"b", 1}, {"c", 3}})),
       held_notice(2, held_on({{"a", 2}}))},
      state);
  EXPECT_EQ(held_in(ordered),
            (std::vector<std::pair<JobNumber, int>>{{1, 0}, {2, 0}, {3, 1}, {1, 4}, {2, 2}}));
}

TEST(NoticeOrder, EventsComeBeforeTheEndOfWhatAJobHolds) {
  State state;
  put_job(state, 1, held_on({{"a", 2}}));
  Notice event{.job = 1, .kind = Notice::Kind::kEvent};
  Notice end{.job = 1, .kind = Notice::Kind::kFinished};
  const auto ordered = in_recorded_order({end, held_notice(1, {}), event}, state);
  ASSERT_EQ(ordered.size(), 3U);
  EXPECT_EQ(ordered[0].kind, Notice::Kind::kEvent);
  EXPECT_EQ(ordered[1].kind, Notice::Kind::kHeld);
  EXPECT_EQ(ordered[2].kind, Notice::Kind::kFinished);
}

// Whatever jobs held before and hold now, if both fit on the nodes, so does everything in between.
TEST(NoticeOrder, NoDeviceIsHeldTwiceInBetween) {
  constexpr int kJobs = 5;
  constexpr int kDevices = 4;
  const auto some = [&](Random& random) {
    std::vector<std::map<std::string, int>> held(kJobs);
    for (const char* node : {"a", "b", "c"}) {
      for (int left = kDevices; left > 0;) {
        const int count = random.between(1, left);
        left -= count;
        if (random.chance(0.7)) held[random.below(kJobs)][node] += count;
      }
    }
    return held;
  };
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    State state;
    const auto before = some(random);
    const auto after = some(random);
    std::vector<Notice> notices;
    for (int job = 0; job < kJobs; ++job) {
      put_job(state, job + 1, held_on(before[static_cast<std::size_t>(job)]));
    }
    for (const int times : {1, 2}) {
      for (int job = 0; job < kJobs; ++job) {
        const auto& now = times == 1 ? some(random) : after;  // what was told first may be anything
        notices.push_back(held_notice(job + 1, held_on(now[static_cast<std::size_t>(job)])));
      }
    }
    for (const Notice& notice : in_recorded_order(notices, state)) {
      state.jobs.at(notice.job).held_nodes = notice.nodes;
      std::map<std::string, int> sums;
      for (const auto& [number, job] : state.jobs) {
        for (const NodeDevices& part : job.held_nodes) sums[part.node] += part.devices;
      }
      for (const auto& [node, devices] : sums) {
        ASSERT_LE(devices, kDevices) << "node " << node << ", seed " << seed;
      }
    }
    for (int job = 0; job < kJobs; ++job) {
      EXPECT_EQ(state.jobs.at(job + 1).held_nodes, held_on(after[static_cast<std::size_t>(job)]))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace rubato::control
