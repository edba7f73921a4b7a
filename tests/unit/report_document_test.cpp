// What is recorded beside the CSV files, and reading it again: every damage is found before a page
// is made, and the message says where it is and what to do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "sim/report.h"
#include "sim/waits.h"
#include "unit/report_runs.h"

namespace rubato {
namespace {

using nlohmann::json;

class ReadReport : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = (std::filesystem::path(testing::TempDir()) /
               ("rubato_read_" + std::to_string(::getpid()) + "_" + test->name()))
                  .string();
    ASSERT_TRUE(write_reports(folder_, runs_, kReportContext, ReportBundle{}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  json document() const { return parse_json(*read_file(folder_ + "/report.json")); }
  // The message after report.json was replaced by this; "" if it is still accepted.
  std::string problem_of(const std::string& text) const {
    EXPECT_TRUE(write_file(folder_ + "/report.json", text));
    const auto read = read_report(folder_);
    return read ? "" : read.error().message;
  }
  std::string problem_with(const char* pointer, const json& value) const {
    json altered = original_;
    altered[json::json_pointer(pointer)] = value;
    return problem_of(compact_json(altered));
  }

  std::string folder_;
  const std::vector<SimResult> runs_ = {run_result("fifo", "w"), run_result("sia", "w", 0.5)};
  const json original_ = parse_json(report_document(runs_, kReportContext).json);
};

TEST_F(ReadReport, GivesBackWhatWasWritten) {
  const auto read = read_report(folder_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->context.command, kReportContext.command);
  EXPECT_EQ(read->context.resize_cost_s, 30);
  ASSERT_EQ(read->runs.size(), 2u);
  EXPECT_EQ(summary_json(read->runs, read->context), summary_json(runs_, kReportContext));
  EXPECT_EQ(parse_json(read->json), document());
}

TEST_F(ReadReport, RecordsWhoHeldWhichDevices) {
  const json run = document()["runs"][0];
  EXPECT_EQ(run["devices"]["t"], json({0, 20, 100, 400}));
  EXPECT_EQ(run["devices"]["job"], json({0, 1, 0, 1}));
  EXPECT_EQ(run["devices"]["nodes"], json::parse("[[0, 2], [0, 2], [], []]"));
  EXPECT_EQ(run["devices"]["node_events"]["t"], json({50, 60}));
  EXPECT_EQ(run["devices"]["node_events"]["down"], json({1, 0}));
  EXPECT_EQ(document()["nodes"], json::parse("[[\"v100\", 8]]"));
  const std::string csv = devices_csv(std::vector{runs_[0]});
  EXPECT_EQ(csv,
            "policy,workload,seed,time_s,job_number,job,devices,nodes\n"
            "fifo,w,7,0,1,a,2,0:2\nfifo,w,7,20,2,b,2,0:2\n"
            "fifo,w,7,100,1,a,0,\nfifo,w,7,400,2,b,0,\n");
}

TEST_F(ReadReport, AFolderThatIsNoneOrOfAnotherKind) {
  EXPECT_EQ(read_report(folder_ + "/no").error().message,
            folder_ + "/no: no such folder; expected one that 'rubato sim --out DIR' wrote");
  ASSERT_TRUE(make_directories(folder_ + "/other"));
  EXPECT_EQ(
      read_report(folder_ + "/other").error().message,
      folder_ + "/other: has no report.json; expected a folder that 'rubato sim --out DIR' wrote");
}

TEST_F(ReadReport, AFolderOfAnEarlierVersionSaysWhatToDo) {
  std::filesystem::remove(folder_ + "/report.json");
  const std::string message = read_report(folder_).error().message;
  EXPECT_NE(message.find("an earlier version of rubato wrote the folder"), std::string::npos);
  EXPECT_NE(message.find("repeat " + kReportContext.command), std::string::npos) << message;
}

TEST_F(ReadReport, DamageIsReportedWithItsPlace) {
  const std::string whole = compact_json(original_);
  const std::string cut = problem_of(whole.substr(0, whole.size() / 2));
  EXPECT_EQ(cut.find(folder_ + "/report.json:1:"), 0u) << cut;
  EXPECT_NE(cut.find("not valid JSON"), std::string::npos) << cut;
  EXPECT_NE(cut.find("the file is damaged: repeat the simulation with --out"), std::string::npos);
  const std::string missing = problem_with("/runs/1/summary", json::object());
  EXPECT_NE(missing.find("runs[1].summary: the field 'policy' is missing"), std::string::npos)
      << missing;
  const std::string version = problem_with("/version", 2);
  EXPECT_NE(version.find("version: is 2; this rubato reads version 1"), std::string::npos)
      << version;
}

TEST_F(ReadReport, WhateverAPageReliesOnIsChecked) {
  const std::vector<std::pair<const char*, json>> damages = {
      {"/command", 7},
      {"/resize_cost_s", -1},
      {"/nodes", "8"},
      {"/nodes/0", json({"v100", 0})},
      {"/runs", json::object()},
      {"/runs/0", 3},
      {"/runs/0/summary/seed", -7},
      {"/runs/0/summary/mean_jct_s", "long"},
      {"/runs/0/timeline", json::object()},
      {"/runs/0/timeline/t", json::array()},
      {"/runs/0/timeline/usable/1", nullptr},
      {"/runs/0/timeline/waiting", json::array({1, 2})},
      {"/runs/0/timeline/averaged_over_s", 5},  // without its extremes
      {"/runs/0/waits/p90/0", "soon"},
      {"/runs/0/cdf/x", 5},
      {"/runs/0/jobs/name/0", 5},
      {"/runs/0/jobs/fairness/0", nullptr},
      {"/runs/0/devices/job/0", 2},
      {"/runs/0/devices/nodes/0", json::array({0})},
      {"/runs/0/devices/nodes/0", json::array({1, 2})},
      {"/runs/0/devices/until", nullptr},
      {"/runs/0/devices/node_events/node/0", 1},
  };
  EXPECT_EQ(problem_of(compact_json(original_)), "");
  for (const auto& [pointer, value] : damages) {
    EXPECT_NE(problem_with(pointer, value), "") << pointer;
  }
}

TEST_F(ReadReport, EveryFieldThatIsMissingIsFound) {
  const json flat = original_.flatten();
  std::set<std::string> objects;
  for (const auto& [pointer, value] : flat.items()) {
    const json::json_pointer leaf(pointer);
    for (json::json_pointer at = leaf; !at.empty(); at.pop_back()) {
      if (original_[at.parent_pointer()].is_object()) objects.insert(at.to_string());
    }
  }
  for (const std::string& pointer : objects) {
    if (pointer == "/tool") continue;  // for people
    const json::json_pointer at(pointer);
    json altered = original_;
    altered[at.parent_pointer()].erase(at.back());
    EXPECT_NE(problem_of(compact_json(altered)), "") << pointer;
  }
}

TEST(AllRuns, NamesTheFolderWhereAPolicyIsInSeveral) {
  ReportDocument first =
      report_document(std::vector{run_result("fifo", "w"), run_result("sia", "w")}, kReportContext);
  ReportDocument second = report_document(std::vector{run_result("sia", "w")}, kReportContext);
  first.folder = "results/one";
  second.folder = "results/two/";
  const std::vector<SimResult> runs = all_runs(std::vector{first, second});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].summary.policy, "fifo");
  EXPECT_EQ(runs[1].summary.policy, "sia (one)");
  EXPECT_EQ(runs[2].summary.policy, "sia (two)");
}

TEST(SampleWaits, CountFromTheSubmissionOrTheLossOfTheDevices) {
  SimResult result = run_result("fifo", "w");
  // b, submitted at 10, waits until 20, and again from 200 to 300.
  result.changes.insert(result.changes.end() - 1, {{200, 1, {}}, {300, 1, {{NodeId(0), 1}}}});
  const std::vector<WaitSample> samples = sample_waits(result, 81);  // every 5 s
  ASSERT_EQ(samples.size(), 81u);
  EXPECT_FALSE(samples[1].median_s);
  EXPECT_EQ(samples[3].median_s, 5);
  EXPECT_FALSE(samples[4].median_s);  // it starts at 20
  EXPECT_EQ(samples[59].p90_s, 95);
  EXPECT_FALSE(samples[60].p90_s);
  EXPECT_FALSE(samples[80].p90_s);  // all have ended
}

TEST(SampleWaits, PercentilesAreOverTheJobsThatWait) {
  SimResult result;
  result.jobs = {job_result("a", 0, -1, -1), job_result("b", 10, -1, -1),
                 job_result("c", 20, 20, 30)};
  result.timeline = {{0, 1, 0, 0, 0, 1}, {100, 1, 0, 0, 0, 2}};
  result.changes = {{20, 2, {{NodeId(0), 1}}}, {30, 2, {}}};
  const std::vector<WaitSample> samples = sample_waits(result, 2);
  EXPECT_EQ(samples[1].median_s, 95);  // 100 and 90
  EXPECT_EQ(samples[1].p90_s, 99);
}

}  // namespace
}  // namespace rubato
