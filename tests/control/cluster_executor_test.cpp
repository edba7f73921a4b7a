// Jobs on the nodes of a cluster: what the daemon decides and tells, with the calls of agents made
// here.
#include "control/cluster/cluster_executor.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "control/cluster/cluster_job.h"
#include "control/job_owner.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

JobDocument program() {
  JobDocument document;
  document.run = {"train"};
  return document;
}

NodeRecord node_named(const std::string& name) {
  NodeRecord record;
  record.node = {.name = name, .device_type = "cpu", .devices = 2};
  record.life = 1;
  return record;
}

TEST(ClusterJob, BeginsAgainWhenAllNodesHaveGivenItUp) {
  ClusterJob job;
  job.document = program();
  job.wanted = {{.node = "a", .device_type = "cpu", .devices = 1},
                {.node = "b", .device_type = "cpu", .devices = 2}};
  job.parts["a"] = {.devices = 1, .held = 1, .members = 1};
  job.restarts = true;
  EXPECT_TRUE(job.newcomers().empty());
  job.parts.clear();
  EXPECT_TRUE(job.unsettled());
  EXPECT_EQ(job.newcomers(), std::vector<std::string>{"b"});
}

// Found with pilots on a machine so busy that workers got ready as late as their nodes left.
TEST(ClusterJob, NodesThatAreNotWantedLeaveWhileOthersStay) {
  ClusterJob job;
  job.document = program();
  job.document.program = elastic::ProgramKind::kRuntime;
  job.wanted = {{.node = "c", .device_type = "cpu", .devices = 2}};
  job.parts["a"] = {.devices = 2, .held = 2, .members = 2};
  job.parts["b"] = {.guest = true, .devices = 2, .held = 2, .members = 2};
  job.parts["c"] = {.guest = true, .devices = 2, .held = 2};  // its workers are not ready yet
  const auto now = ClusterJob::Clock::now();
  job.settle(now);
  EXPECT_EQ(job.parts["a"].devices, 0);
  EXPECT_EQ(job.parts["b"].devices, 2);  // the last one waits
  job.settle(now + std::chrono::seconds(1));
  EXPECT_EQ(job.parts["b"].devices, 2);
  job.parts["c"].members = 2;
  job.settle(now + std::chrono::seconds(2));
  EXPECT_EQ(job.parts["b"].devices, 0);
  EXPECT_FALSE(job.restarts);
}

class ClusterExecutorTest : public testing::Test {
 protected:
  ClusterExecutorTest()
      : executor_({.folder = folder_.path() + "/copies"}, "log", {{"a", node_named("a")}}) {
    executor_.begin(1);
  }

  NodeOrders call(const std::string& node, std::vector<NumberedNotice> notices = {},
                  std::vector<NodeReport::Job> jobs = {}) {
    NodeReport report{.node = node_named(node).node, .start = 1, .session = sessions_[node]};
    report.notices = std::move(notices);
    report.jobs = std::move(jobs);
    const auto orders = executor_.sync(report);
    EXPECT_TRUE(orders.ok());
    sessions_[node] = orders->session;
    return *orders;
  }

  // The devices that the job is said to hold in the next turn, one after the other.
  std::map<JobNumber, std::vector<int>> told_held() {
    std::map<JobNumber, std::vector<int>> held;
    for (const Notice& notice : executor_.poll()) {
      if (notice.kind == Notice::Kind::kHeld) held[notice.job].push_back(notice.devices);
    }
    return held;
  }

  void begin_on_a(JobNumber job, int devices) {
    ASSERT_TRUE(executor_.claim(job, {.store = "log", .job = "uid"}).ok());
    const JobPlacement wanted = {{.node = "a", .device_type = "cpu", .devices = devices}};
    ASSERT_TRUE(executor_.want(job, program(), wanted, 8).ok());
    static_cast<void>(executor_.poll());
  }

  TemporaryFolder folder_;
  ClusterExecutor executor_;
  std::map<std::string, std::string> sessions_;
};

// Seed 2 of the cluster's chaos: a node was lost between its last call and the loop's turn, and
// what it had told before was recorded after its loss, so its devices counted as held for good.
TEST_F(ClusterExecutorTest, ALostNodeHoldsNothingWhateverItToldBefore) {
  begin_on_a(1, 2);
  ASSERT_EQ(call("a").jobs.size(), 1U);
  call("a", {{1, {.job = 1, .devices = 2}}}, {{.job = 1, .held = 2}});
  NodeRecord lost = node_named("a");
  lost.lost_at = 5;
  executor_.set_node(lost);
  EXPECT_EQ(told_held()[1], (std::vector<int>{2, 0}));
  EXPECT_EQ(executor_.held(), 0);
}

using Held = std::map<JobNumber, std::vector<int>>;

// Seed 112 of the cluster's chaos: while there was no daemon, a node gave a device of one job to
// another, and the next daemon heard first what the other had taken.
TEST_F(ClusterExecutorTest, WhatAJobTakesIsRecordedWhenAnotherHasGivenItBack) {
  begin_on_a(1, 1);
  begin_on_a(2, 1);
  call("a");
  call("a", {{1, {.job = 1, .devices = 1}}, {2, {.job = 2, .devices = 1}}},
       {{.job = 1}, {.job = 2}});
  EXPECT_EQ(told_held(), (Held{{1, {1}}, {2, {1}}}));
  call("a", {{3, {.job = 1, .devices = 2}}}, {{.job = 1}, {.job = 2}});
  EXPECT_EQ(told_held(), Held());
  EXPECT_EQ(executor_.held(), 2);
  call("a", {{4, {.job = 2, .devices = 0}}}, {{.job = 1}, {.job = 2}});
  EXPECT_EQ(told_held(), (Held{{1, {2}}, {2, {0}}}));
  // What waits for room may be given back in its turn.
  call("a", {{5, {.job = 2, .devices = 1}}, {6, {.job = 2, .devices = 0}}},
       {{.job = 1}, {.job = 2}});
  EXPECT_EQ(told_held(), Held());
  EXPECT_EQ(executor_.held(), 2);
}

TEST_F(ClusterExecutorTest, ANodeWithMoreDevicesThanBeforeHasRoom) {
  begin_on_a(1, 2);
  call("a");
  call("a", {{1, {.job = 1, .devices = 3}}}, {{.job = 1}});
  EXPECT_EQ(told_held(), Held());
  NodeRecord larger = node_named("a");
  larger.node.devices = 3;
  executor_.set_node(larger);
  EXPECT_EQ(told_held(), (Held{{1, {3}}}));
}

TEST_F(ClusterExecutorTest, AJobIsForgottenWhenEverythingAboutItIsTold) {
  begin_on_a(1, 2);
  call("a");
  call("a", {{1, {.job = 1, .devices = 2}}}, {{.job = 1, .held = 2}});
  executor_.cancel(1);
  EXPECT_FALSE(executor_.forget(1));
  executor_.remove_node("a");
  EXPECT_FALSE(executor_.forget(1));
  const std::vector<Notice> notices = executor_.poll();
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().devices, 0);
  EXPECT_TRUE(executor_.forget(1));
}

}  // namespace
}  // namespace rubato::control
