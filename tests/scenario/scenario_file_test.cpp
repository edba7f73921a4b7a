// Errors in a scenario file are reported with file and line.
#include "scenario/scenario_file.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr std::string_view kGood =
    "# comment\n"
    "cluster 2x4\n"
    "policy tiresias\n"
    "set threshold=100 promote=2\n"
    "app even updates 10 update-seconds 4,2,1.5\n"
    "job a submit 0 devices 2 duration 100 priority 3  # rigid\n"
    "job b submit 10 devices 1..3 requested 2 app even\n"
    "node-down 20 1\n"
    "serving 30 2\n"
    "expect\n"
    "  0    a=2@0\n"
    "  10.5 a=1@0+1@1 (b)\n"
    "jct a=10 b=never\n";

std::string error_of(const std::string& text) {
  const auto scenario = ScenarioParser::parse(text, "x.txt");
  return scenario ? "no error" : scenario.error().message;
}

// The valid file with one line (counted from 1) replaced.
std::string with_line(std::size_t number, const std::string& line) {
  std::string text;
  std::size_t count = 0;
  for (const std::string_view old : split(kGood, '\n')) {
    text += ++count == number ? line : std::string(old);
    text += '\n';
  }
  return text;
}

TEST(ScenarioFile, ReadsAllStatements) {
  const auto scenario = ScenarioParser::parse(kGood, "x.txt");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->cluster.devices(), 8);
  EXPECT_EQ(scenario->policy->name, "tiresias");
  EXPECT_EQ(scenario->options.settings.at("promote"), "2");
  ASSERT_EQ(scenario->workload.jobs.size(), 2U);
  const JobSpec& rigid = scenario->workload.jobs[0].spec;
  EXPECT_EQ(rigid.mode, ElasticMode::kRigid);
  EXPECT_EQ(rigid.priority, 3);
  const JobSpec& elastic = scenario->workload.jobs[1].spec;
  EXPECT_EQ(elastic.mode, ElasticMode::kConsistent);
  EXPECT_EQ(elastic.requested_devices, 2);
  EXPECT_EQ(elastic.max_devices, 3);
  ASSERT_EQ(scenario->schedule.size(), 2U);
  EXPECT_EQ(scenario->schedule[1].line, 12);
  EXPECT_EQ(to_text(scenario->schedule[1].value, true), "10.5     a=1@0+1@1 (b)");
  ASSERT_EQ(scenario->facts.size(), 2U);
  EXPECT_EQ(scenario->facts[1].value.value, -1);
}

TEST(ScenarioFile, NamesFileAndLineOfAMistake) {
  EXPECT_EQ(error_of(with_line(2, "clutser 2x4")),
            "x.txt:2: unknown statement 'clutser' (did you mean 'cluster'?)");
  EXPECT_EQ(error_of(with_line(6, "job a submit 0 devcies 2")),
            "x.txt:6: job: unknown property 'devcies' (did you mean 'devices'?)");
  EXPECT_EQ(error_of(with_line(6, "job a submit 0 devices")),
            "x.txt:6: expected devices at the end of the line");
  EXPECT_EQ(error_of(with_line(6, "job a submit 0 devices 9 duration 1")),
            "x.txt:6: devices: 9, but the cluster (given above the jobs) has 8 of a type");
  EXPECT_EQ(error_of(with_line(7, "job b submit 10 devices 1..4 app even")),
            "x.txt:7: job: 4 devices, but update-seconds of 'even' has 3 numbers");
  EXPECT_EQ(error_of(with_line(7, "job b submit 10 devices 1 duration 5 app even")),
            "x.txt:7: job: needs either a duration above 0 or an app");
  EXPECT_EQ(error_of(with_line(8, "node-down 20 2")), "x.txt:8: the cluster has no node 2");
  EXPECT_EQ(error_of(with_line(10, "")), "x.txt:11: schedule line before 'expect'");
  EXPECT_EQ(error_of(with_line(12, "  0 a=2")),
            "x.txt:12: schedule lines must be in order of time");
  EXPECT_EQ(error_of(with_line(12, "  20 c=2")),
            "x.txt:12: no job 'c' is defined above (did you mean 'a'?)");
  EXPECT_EQ(error_of(with_line(12, "  20 a=2 (b")),
            "x.txt:12: expected ')' at the end of the line");
  EXPECT_EQ(error_of(with_line(13, "jct a=soon")),
            "x.txt:13: jct: expected a number from 0, not 'soon'");
}

TEST(ScenarioFile, NodesCountOnlyWhereTheyAreExpected) {
  const ScheduleLine actual{.time_ms = 5, .running = {{"a", {2, {{0, 1}, {1, 1}}}}}};
  ScheduleLine expected{.time_ms = 5, .running = {{"a", {2, {}}}}};
  EXPECT_TRUE(matches(expected, actual));
  expected.running["a"].by_node = {{0, 2}};
  EXPECT_FALSE(matches(expected, actual));
  expected.running["a"] = {1, {}};
  EXPECT_FALSE(matches(expected, actual));
}

}  // namespace
}  // namespace rubato
