// Who had which device when, read from a log.
#include "demo/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rubato::demo {
namespace {

using control::Event;
using control::JobNumber;
using nlohmann::json;

constexpr double kStart = 1000;

Event event(double at, JobNumber job, const char* type, json body = json::object()) {
  return {.at = kStart + at, .type = type, .job = job, .body = std::move(body)};
}
Event held(double at, JobNumber job, int devices) {
  return event(at, job, "held", {{"devices", devices}});
}
Event view(double at, JobNumber job, const char* cause, int workers) {
  return event(at, job, "view",
               {{"type", "view"}, {"cause", cause}, {"workers", workers}, {"at", kStart + at}});
}

// How many rows the job fills at a moment.
int rows_at(const Timeline& timeline, JobNumber job, double at) {
  return static_cast<int>(std::count_if(
      timeline.bars.begin(), timeline.bars.end(),
      [&](const Bar& bar) { return bar.job == job && bar.from <= at && at < bar.to; }));
}

int training_at(const Timeline& timeline, JobNumber job, double at) {
  return static_cast<int>(
      std::count_if(timeline.bars.begin(), timeline.bars.end(), [&](const Bar& bar) {
        return bar.job == job && bar.training && bar.from <= at && at < bar.to;
      }));
}

void expect_no_overlap(const Timeline& timeline) {
  for (const Bar& a : timeline.bars) {
    EXPECT_LT(a.from, a.to);
    EXPECT_GE(a.row, 0);
    EXPECT_LT(a.row, timeline.rows);
    for (const Bar& b : timeline.bars) {
      if (&a == &b || a.row != b.row) continue;
      EXPECT_TRUE(a.to <= b.from || b.to <= a.from) << "row " << a.row << " at " << a.from;
    }
  }
}

TEST(Timeline, ShowsWhatJobsHoldAndHowManyOfTheirWorkersTrain) {
  const Timeline timeline = timeline_of(
      std::vector<Event>{event(0, 1, "submitted"), held(1, 1, 2), view(2, 1, "start", 2),
                         event(3, 2, "submitted"), view(4, 1, "leave", 1), held(5, 1, 1),
                         held(5, 2, 1), view(6, 2, "start", 1), event(8, 2, "finished"),
                         held(9, 2, 0), held(9, 1, 2), view(10, 1, "join", 2),
                         event(12, 1, "finished"), held(12, 1, 0)},
      2);
  expect_no_overlap(timeline);
  EXPECT_EQ(rows_at(timeline, 1, 1.5), 2);
  EXPECT_EQ(training_at(timeline, 1, 1.5), 0) << "its workers start";
  EXPECT_EQ(training_at(timeline, 1, 3), 2);
  EXPECT_EQ(rows_at(timeline, 1, 4.5), 2) << "one of them is leaving";
  EXPECT_EQ(training_at(timeline, 1, 4.5), 1);
  EXPECT_EQ(rows_at(timeline, 1, 7), 1);
  EXPECT_EQ(training_at(timeline, 2, 7), 1);
  EXPECT_EQ(training_at(timeline, 2, 8.5), 0);
  EXPECT_EQ(training_at(timeline, 1, 11), 2);
  EXPECT_EQ(timeline.ends, (std::map<JobNumber, double>{{1, 12}, {2, 8}}));

  ASSERT_EQ(timeline.waits.size(), 2u);
  EXPECT_EQ(timeline.waits[1].job, 2);
  EXPECT_EQ(timeline.waits[1].from, 3);
  EXPECT_EQ(timeline.waits[1].to, 5);
  ASSERT_EQ(timeline.marks.size(), 2u);
  EXPECT_EQ(timeline.marks[0].kind, MarkKind::kShrunk);
  EXPECT_EQ(timeline.marks[0].at, 4);
  EXPECT_EQ(timeline.marks[1].kind, MarkKind::kGrown);
  EXPECT_EQ(timeline.marks[1].at, 10);
}

TEST(Timeline, AKilledWorkerIsMarkedAndItsRowStartsAgain) {
  const Timeline timeline = timeline_of(
      std::vector<Event>{event(0, 1, "submitted"), held(0, 1, 2), view(1, 1, "start", 2),
                         event(3, 1, "view", {{"type", "lost"}, {"worker", 1}, {"at", kStart + 3}}),
                         view(3, 1, "failure", 1), view(5, 1, "join", 2), event(7, 1, "finished"),
                         held(7, 1, 0)},
      2);
  expect_no_overlap(timeline);
  ASSERT_EQ(timeline.marks.size(), 2u);
  EXPECT_EQ(timeline.marks[0].kind, MarkKind::kKilled);
  EXPECT_EQ(timeline.marks[0].at, 3);
  EXPECT_EQ(timeline.marks[1].kind, MarkKind::kGrown);
  EXPECT_EQ(training_at(timeline, 1, 4), 1);
  EXPECT_EQ(rows_at(timeline, 1, 4), 2);
  EXPECT_EQ(training_at(timeline, 1, 6), 2);
}

TEST(Timeline, AViewThatTheDaemonHeardOfLateIsDrawnWhenItHappened) {
  Event late = view(2, 1, "start", 1);
  late.at = kStart + 6;  // the daemon was away
  const Timeline timeline = timeline_of(
      std::vector<Event>{event(0, 1, "submitted"), held(1, 1, 1), late, event(9, 1, "finished")},
      1);
  EXPECT_EQ(training_at(timeline, 1, 3), 1);
}

TEST(Timeline, APreemptedJobWaitsAgain) {
  const Timeline timeline = timeline_of(
      std::vector<Event>{event(0, 1, "submitted"), held(0, 1, 1), view(1, 1, "start", 1),
                         view(3, 1, "stop", 0), held(4, 1, 0), held(6, 1, 1),
                         view(7, 1, "restart", 1), event(9, 1, "finished"), held(9, 1, 0)},
      1);
  expect_no_overlap(timeline);
  ASSERT_EQ(timeline.waits.size(), 1u);
  EXPECT_EQ(timeline.waits[0].from, 4);
  EXPECT_EQ(timeline.waits[0].to, 6);
  EXPECT_TRUE(timeline.marks.empty());
}

TEST(Timeline, ARigidScheduleFillsItsRows) {
  control::RigidReplay rigid{.devices = 2, .replay = {}};
  // Two jobs side by side, the third when the first has ended.
  rigid.replay.jobs = {{.job = 1, .name = "a", .simulated_wait_s = 0, .simulated_s = 4},
                       {.job = 2, .name = "b", .simulated_wait_s = 0, .simulated_s = 8},
                       {.job = 3, .name = "c", .simulated_wait_s = 2, .simulated_s = 5}};
  const Timeline timeline = timeline_of(rigid, {{1, 0}, {2, 1}, {3, 2}}, 4, 0.5);
  expect_no_overlap(timeline);
  EXPECT_EQ(rows_at(timeline, 1, 3), 2);
  EXPECT_EQ(rows_at(timeline, 2, 3), 2);
  EXPECT_EQ(rows_at(timeline, 3, 3), 0);
  EXPECT_EQ(training_at(timeline, 3, 4.2), 0);
  EXPECT_EQ(training_at(timeline, 3, 6), 2);
  ASSERT_EQ(timeline.waits.size(), 1u);
  EXPECT_EQ(timeline.waits[0].to, 4);
  EXPECT_EQ(timeline.ends.at(2), 9);
}

}  // namespace
}  // namespace rubato::demo
