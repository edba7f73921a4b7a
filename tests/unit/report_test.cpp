#include "sim/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report_parts.h"
#include "unit/report_runs.h"

namespace rubato {
namespace {
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, code_points(line));
  return most;
}

TEST(SummarizeJobs, CountsFinishedJobsAndAllWaiting) {
  JobResult unfinished = job_result("c", 5, 305, -1);
  unfinished.fairness = 99;
  SimSummary summary;
  summarize_jobs({job_result("a", 10, 10, 110), job_result("b", 20, 50, 320), unfinished}, summary);
  EXPECT_EQ(summary.jobs, 3);
  EXPECT_EQ(summary.jobs_finished, 2);
  EXPECT_DOUBLE_EQ(summary.mean_jct_s, 200);  // 100 and 300
  EXPECT_DOUBLE_EQ(summary.p50_jct_s, 200);
  EXPECT_DOUBLE_EQ(summary.p90_jct_s, 280);
  EXPECT_DOUBLE_EQ(summary.p99_jct_s, 298);
  EXPECT_DOUBLE_EQ(summary.mean_queue_s, 110);  // 0, 30 and 300
  EXPECT_DOUBLE_EQ(summary.makespan_s, 315);    // submit at 5, finish at 320
  EXPECT_EQ(summary.resizes, 3);
  EXPECT_DOUBLE_EQ(summary.resize_lost_device_s, 15);
  EXPECT_DOUBLE_EQ(summary.mean_fairness, 1.5);
  EXPECT_DOUBLE_EQ(summary.worst_fairness, 1.5);
}

TEST(SummarizeJobs, CountsDroppedJobsApart) {
  JobResult dropped = job_result("c", 5, -1, -1);
  dropped.dropped = true;
  dropped.queue_s = 0;
  dropped.resizes = 0;
  SimSummary summary;
  summarize_jobs({job_result("a", 10, 10, 110), job_result("b", 20, 50, 320), dropped}, summary);
  EXPECT_EQ(summary.jobs, 3);
  EXPECT_EQ(summary.jobs_finished, 2);
  EXPECT_EQ(summary.jobs_dropped, 1);
  EXPECT_DOUBLE_EQ(summary.mean_queue_s, 15);  // 0 and 30: a job that was turned away does not
                                               // count as a short wait
}

TEST(SummarizeJobs, NoJobsGiveZeros) {
  SimSummary summary;
  summary.resizes = 4;
  summarize_jobs({}, summary);
  EXPECT_EQ(summary.jobs, 0);
  EXPECT_EQ(summary.resizes, 0);
  EXPECT_EQ(summary.mean_jct_s, 0);
  EXPECT_EQ(summary.makespan_s, 0);
  EXPECT_EQ(summary.worst_fairness, 0);
}

TEST(SummaryJson, HasEveryKeyInOrder) {
  const std::vector<SimResult> runs = {run_result("fifo", "w"), run_result("sia", "w", 0.5)};
  const std::string text = summary_json(runs, kReportContext);
  EXPECT_EQ(text.back(), '\n');
  const auto document = nlohmann::ordered_json::parse(text);
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"version", "tool", "command", "cluster", "round",
                                            "resize_cost_s", "runs"}));
  ASSERT_EQ(document["runs"].size(), 2u);
  keys.clear();
  for (const auto& [key, value] : document["runs"][0].items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"policy",
                                            "workload",
                                            "seed",
                                            "jobs",
                                            "jobs_finished",
                                            "jobs_dropped",
                                            "mean_jct_s",
                                            "p50_jct_s",
                                            "p90_jct_s",
                                            "p99_jct_s",
                                            "mean_queue_s",
                                            "p99_queue_s",
                                            "makespan_s",
                                            "allocated_ratio",
                                            "useful_ratio",
                                            "resizes",
                                            "resize_lost_device_s",
                                            "mean_fairness",
                                            "worst_fairness",
                                            "serving_wait_max_s",
                                            "rounds",
                                            "decision_ms_mean",
                                            "decision_ms_p99",
                                            "algorithm_ms_mean",
                                            "algorithm_ms_p99",
                                            "wall_s"}));
  EXPECT_EQ(document["tool"], "rubato");
  EXPECT_EQ(document["runs"][0]["mean_jct_s"], 245);  // 100 and 390
}

TEST(SummaryJson, BrokenUtf8InANameDoesNotThrow) {
  const std::vector<SimResult> runs = {run_result("fifo\xff", "w")};
  EXPECT_TRUE(nlohmann::json::accept(summary_json(runs, kReportContext)));
  EXPECT_TRUE(nlohmann::json::accept(report_document(runs, kReportContext).json));
}

TEST(JobsCsv, QuotesNamesAndLeavesUnknownTimesEmpty) {
  SimResult result = run_result("fi,fo", "w");
  result.jobs = {job_result("say \"hi\"\n", 0.1, 0.5, -1)};
  const std::string csv = jobs_csv(std::vector{result});
  EXPECT_EQ(csv.substr(csv.find('\n') + 1),
            "\"fi,fo\",w,7,\"say \"\"hi\"\"\n\",,,2,0.1,0.5,,,0,0.4,0,5,1,1.5\n");
}

TEST(TextTable, ShowsDroppedJobsOnlyWhereThereAreAny) {
  SimResult plain = run_result("fifo", "w");
  EXPECT_EQ(text_table(std::vector{plain}).find("DROPPED"), std::string::npos);
  SimResult dropping = run_result("elastic-dp", "w");
  dropping.jobs.push_back(job_result("c", 5, -1, -1));
  dropping.jobs.back().dropped = true;
  summarize_jobs(dropping.jobs, dropping.summary);
  const std::string table = text_table(std::vector{plain, dropping});
  EXPECT_NE(table.find("DROPPED"), std::string::npos) << table;
  EXPECT_LE(widest(table), 100u) << table;
}

TEST(TimelineCsv, HasOneLinePerPoint) {
  const std::vector<std::string> lines =
      lines_of(timeline_csv(std::vector{run_result("fifo", "w")}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "policy,workload,seed,time_s,usable,allocated,useful,running,waiting");
  EXPECT_EQ(lines[1], "fifo,w,7,0,8,2,1.5,1,0");
}

TEST(HumanNumbers, RoundBeforeTheUnitIsChosen) {
  EXPECT_EQ(human_duration(0), "0s");
  EXPECT_EQ(human_duration(3.21), "3.2s");
  EXPECT_EQ(human_duration(59.7), "1m00s");
  EXPECT_EQ(human_duration(45 * 60 + 12), "45m12s");
  EXPECT_EQ(human_duration(3599.6), "1h00m");
  EXPECT_EQ(human_duration(2 * 3600 + 5 * 60), "2h05m");
  EXPECT_EQ(human_duration(86399), "1d00h");
  EXPECT_EQ(human_duration(76 * 3600), "3d04h");
  EXPECT_EQ(human_duration(1e300), ">99999d");
  EXPECT_EQ(human_milliseconds(0.0123), "12us");
  EXPECT_EQ(human_milliseconds(0.123), "0.12ms");
  EXPECT_EQ(human_milliseconds(2500), "2.5s");
}

TEST(TextTable, MarksTheBestAndComparesWithTheFirst) {
  const std::string table =
      text_table(std::vector{run_result("fifo", "w"), run_result("sia", "w", 0.5)});
  const std::vector<std::string> lines = lines_of(table);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_NE(lines[1].find("4m05s "), std::string::npos) << table;
  EXPECT_NE(lines[1].find("1.00x"), std::string::npos) << table;
  EXPECT_NE(lines[2].find("2m00s*"), std::string::npos) << table;
  EXPECT_NE(lines[2].find("0.49x"), std::string::npos) << table;
}

TEST(TextTable, ARunThatLeavesJobsBehindIsNotTheBest) {
  SimResult hasty = run_result("hasty", "w", 0.1);
  hasty.jobs[1].finish_s = -1;
  summarize_jobs(hasty.jobs, hasty.summary);
  const std::string table = text_table(std::vector{run_result("fifo", "w"), hasty});
  EXPECT_NE(lines_of(table)[1].find('*'), std::string::npos) << table;
  EXPECT_NE(lines_of(table)[2].find("1/2"), std::string::npos) << table;
}

TEST(TextTable, GroupsWorkloadsAndSeeds) {
  SimResult other_seed = run_result("fifo", "w2");
  other_seed.summary.seed = 8;
  const std::string table =
      text_table(std::vector{run_result("fifo", "w1"), run_result("fifo", "w2"),
                             run_result("sia", "w1"), run_result("sia", "w2"), other_seed});
  const std::vector<std::string> lines = lines_of(table);
  EXPECT_EQ(lines[1], "w1");
  EXPECT_EQ(lines[4], "w2 (seed 7)");
  EXPECT_EQ(lines[7], "w2 (seed 8)");
}

TEST(TextTable, StaysWithin100ColumnsWhateverItHolds) {
  SimResult huge = run_result(std::string(300, 'p') + "é\n\x1b[31m", std::string(300, 'w'), 1e9);
  huge.summary.jobs = 2000000000;
  huge.summary.jobs_finished = 1999999999;
  huge.summary.resizes = 2000000000;
  huge.summary.mean_fairness = 1e9;
  huge.summary.decisions.total_ms_mean = 1e9;
  SimResult second = huge;
  second.summary.mean_jct_s *= 1e12;
  const std::vector<SimResult> runs = {huge, second, run_result("fifo", "short")};
  EXPECT_LE(widest(text_table(runs)), 100u) << text_table(runs);
  EXPECT_EQ(text_table(runs).find('\x1b'), std::string::npos);
  EXPECT_LE(widest(text_table(std::vector{run_result("fifo", "w")})), 100u);
  EXPECT_EQ(text_table({}), "no runs\n");
}

TEST(TextPlot, SharesTheScaleAndFitsTheWidth) {
  const std::vector<SimResult> runs = {run_result("fifo", "w"), run_result("sia", "w", 0.5)};
  for (const int columns : {-1, 40, 80, 203}) {
    const std::string plot = text_plot(runs, columns);
    EXPECT_LE(widest(plot), static_cast<std::size_t>(std::max(columns, 40))) << plot;
  }
  const std::vector<std::string> lines = lines_of(text_plot(runs, 80));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0], "allocated devices (█ = 8)");
  EXPECT_NE(lines[1].find("▂▂▂"), std::string::npos);  // 2 of 8
  EXPECT_NE(lines[1].find("▄▄▄"), std::string::npos);  // 4 of 8
  EXPECT_EQ(code_points(lines[1]), 80u);
  EXPECT_LE(code_points(lines[2]), 44u);  // half as long a run
  EXPECT_EQ(lines[3].substr(lines[3].size() - 5), "6m40s");
}

TEST(TextPlot, SaysSoWhenThereIsNothing) {
  SimResult empty = run_result("fifo", "w");
  empty.timeline.clear();
  EXPECT_NE(text_plot(std::vector{empty}, 80).find("no timeline"), std::string::npos);
  EXPECT_EQ(text_plot({}, 80), "no runs\n");
}

TEST(BucketTimeline, WeighsByTimeAndKeepsExtremes) {
  // 2 devices for 90 s, a peak of 12 for 10 s. The peak at 100 s has no duration.
  const std::vector<TimelinePoint> timeline = {{0, 16, 2, 1, 1, 0},
                                               {90, 16, 12, 6, 4, 3},
                                               {100, 16, 16, 16, 9, 9},
                                               {100, 16, 0, 0, 0, 0},
                                               {200, 16, 0, 0, 0, 0}};
  const std::vector<TimelineBucket> buckets = bucket_timeline(timeline, 0, 300, 3);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_DOUBLE_EQ(buckets[0].allocated, 3);
  EXPECT_EQ(buckets[0].allocated_low, 2);
  EXPECT_EQ(buckets[0].allocated_high, 12);
  EXPECT_DOUBLE_EQ(buckets[0].waiting, 0.3);
  EXPECT_EQ(buckets[0].waiting_high, 3);
  EXPECT_EQ(buckets[1].allocated_high, 0);
  EXPECT_DOUBLE_EQ(buckets[1].usable, 16);
  EXPECT_EQ(buckets[2].covered_s, 0);
}

}  // namespace
}  // namespace rubato
