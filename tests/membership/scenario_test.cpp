// Scenario files, shrinking and the systematic search.
#include "membership/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "membership/search.h"
#include "membership/shrink.h"
#include "test_paths.h"

namespace rubato::elastic::membership::sim {
namespace {

std::filesystem::path folder() {
  return std::filesystem::path(test_paths::kSourceTree) / "tests/membership/scenarios";
}

std::string read(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// --- Files ---------------------------------------------------------------------------------------

TEST(Scenarios, HappenAsTheySay) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string file = entry.path().filename().string();
    const Result<Scenario> scenario = parse_scenario(read(entry.path()), file);
    ASSERT_TRUE(scenario) << scenario.error().message;
    EXPECT_FALSE(scenario->story.empty()) << file << " does not say what it tells";
    EXPECT_EQ(play(*scenario), "") << "build/bin/membership_sim --scenario " << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST(Scenarios, AreWrittenAsTheyAreRead) {
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const Result<Scenario> first = parse_scenario(read(entry.path()), "a");
    ASSERT_TRUE(first) << first.error().message;
    const std::string text = to_text(*first);
    const Result<Scenario> second = parse_scenario(text, "b");
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(to_text(*second), text);
    EXPECT_EQ(second->expected, first->expected);
  }
}

// What is written of a random schedule has the same history.
TEST(Scenarios, TellRandomSchedules) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const int nodes = seed % 3 == 0 ? 2 : 1;
    const Schedule schedule = random_schedule(seed, nodes, 4, 30);
    const Result<Scenario> read = parse_scenario(to_text({"", schedule, {}}), "seed");
    ASSERT_TRUE(read) << read.error().message;
    const Outcome told = World(read->schedule).run();
    const Outcome was = World(schedule).run();
    EXPECT_EQ(told.events, was.events) << "seed " << seed;
    EXPECT_EQ(told.ended_at, was.ended_at) << "seed " << seed;
  }
}

TEST(Scenarios, ErrorsNameFileLineAndWhatWasExpected) {
  const auto error = [](const std::string& text) {
    const Result<Scenario> result = parse_scenario(text, "x.scenario");
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(error("workers 3\nat noon s: kill worker 1\n"),
            "x.scenario:2: 'at noon s: kill worker 1': expected a moment, like 'at 0.5 s' or 'when "
            "any worker is frozen'");
  EXPECT_EQ(error("at 1 s: kill worker one\n"),
            "x.scenario:1: 'at 1 s: kill worker one': expected a fault, like 'kill worker 1'");
  EXPECT_EQ(error("at 1 s: kill worker 1 twice\n"),
            "x.scenario:1: 'at 1 s: kill worker 1 twice': expected a fault, like 'kill worker 1'");
  EXPECT_EQ(error("workers many\n"),
            "x.scenario:1: 'workers many': expected a setting, a fault or an expectation");
  EXPECT_EQ(error("# a story\n\nexpect views some\n"),
            "x.scenario:3: 'expect views some': expected 'causes', 'members', 'violation' or "
            "'trace' and a text, or a number");
  EXPECT_EQ(error("workers 2\nwhen worker 1 is sleepy: kill worker 1\n").substr(0, 12),
            "x.scenario:2");
}

TEST(Scenarios, SayWhatIsNotAsExpected) {
  const auto unmet = [](const std::string& expectations) {
    return play(*parse_scenario("workers 2\nat 0.1 s: kill worker 1\n" + expectations, "x"));
  };
  EXPECT_EQ(unmet("expect views 3\nexpect causes start start failure\n"), "");
  EXPECT_EQ(unmet("expect views 7\n"), "views: expected 7, not 3");
  EXPECT_EQ(unmet("expect members 1\n"), "members: expected 1, not 0");
  EXPECT_EQ(unmet("expect violation nothing goes on\n"),
            "violation: expected 'nothing goes on', not ''");
  EXPECT_EQ(unmet("expect trace worker 1 is dead\nexpect trace member -> recovering\n"), "");
  EXPECT_EQ(unmet("expect trace member -> recovering\nexpect trace worker 1 is dead\n"),
            "trace: 'worker 1 is dead' is not in it, or too early");
}

// --- Shrinking -----------------------------------------------------------------------------------

// A planted promise: no worker is ever replaced after one was killed.
std::string planted(const Schedule& schedule) {
  bool killed = false;
  for (const Fault& fault : World(schedule).run().faults) {
    killed = killed || fault.kind == Fault::Kind::kKill;
    if (killed && fault.kind == Fault::Kind::kMigrate) {
      return "at 0.5 s: worker 7 is replaced after a kill";
    }
  }
  return "";
}

TEST(Shrink, LeavesWhatViolatesThePromise) {
  int shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Schedule schedule = random_schedule(seed, 1, 4, 30);
    if (planted(schedule).empty()) continue;
    const Shrunk small = shrink(schedule, World(schedule).run().faults, planted);
    ASSERT_EQ(small.schedule.faults.size(), 2u) << to_text({"", small.schedule, {}});
    EXPECT_EQ(small.schedule.faults[0].kind, Fault::Kind::kKill);
    EXPECT_EQ(small.schedule.faults[1].kind, Fault::Kind::kMigrate);
    EXPECT_LT(small.schedule.workers, 4);
    EXPECT_LT(small.schedule.faults[1].at, 250'000);
    EXPECT_NE(planted(small.schedule), "");
    ++shrunk;
  }
  EXPECT_GE(shrunk, 3);
}

TEST(Shrink, KeepsTheKindOfTheViolation) {
  EXPECT_EQ(
      kind_of_violation("at 0.5 s: worker 3 published after it promised to wait for view 4"),
      kind_of_violation("at 7.25 s: worker 11 published after it promised to wait for view 9"));
  EXPECT_EQ(kind_of_violation("at 65.9 s: the job does not end:\n  10 on a: newcomer"),
            kind_of_violation("at 70.1 s: the job does not end:\n  1 on b: member"));
  EXPECT_NE(kind_of_violation("at 1 s: step 3 is complete twice"),
            kind_of_violation("at 1 s: view 3 begins and is not committed"));
}

// --- Search --------------------------------------------------------------------------------------

TEST(Search, OneChangeWithOneFaultAtEveryPoint) {
  const SearchBounds bounds{.nodes = 1, .workers = 2, .behind = 4};
  const SearchResult result = search(bounds);
  EXPECT_EQ(result.violation, "") << to_text({"", result.failing, {}});
  EXPECT_GT(result.points, 200);
  EXPECT_GT(result.runs, result.points * 10);
  EXPECT_GT(result.states, result.runs);
}

}  // namespace
}  // namespace rubato::elastic::membership::sim
