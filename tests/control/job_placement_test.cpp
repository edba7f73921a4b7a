#include "control/job_placement.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/event_types.h"
#include "control/live_cluster.h"

namespace rubato::control {
namespace {

using nlohmann::json;

const JobPlacement kTwo{{"gpu1", "a100", 4}, {"gpu2", "a100", 2}};

TEST(JobPlacements, GoToJsonAndBack) {
  EXPECT_EQ(*placement_from_json(placement_json(kTwo)), kTwo);
  EXPECT_EQ(devices_on(kTwo), 6);
  EXPECT_EQ(placement_text(kTwo), "gpu1 (4), gpu2 (2)");
  EXPECT_TRUE(unnamed_placement(0).empty());
  EXPECT_EQ(devices_on(unnamed_placement(3)), 3);
}

TEST(JobPlacements, WhatIsNoneIsRefused) {
  const auto refusal = [](const char* text) {
    const auto read = placement_from_json(json::parse(text));
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(refusal("[]"), "");
  EXPECT_EQ(refusal("3"), "3; expected a list");
  EXPECT_NE(refusal(R"([{"node": "a", "devices": 1}])"), "");
  EXPECT_NE(refusal(R"([{"node": "", "device_type": "x", "devices": 1}])"), "");
  EXPECT_NE(refusal(R"([{"node": "a", "device_type": "x", "devices": 0}])"), "");
  EXPECT_NE(refusal(R"([{"node": "a", "device_type": "x", "devices": 1, "more": 1}])"), "");
  EXPECT_EQ(refusal(R"([{"node": "a", "device_type": "x", "devices": 1},
                        {"node": "a", "device_type": "y", "devices": 1}])"),
            "node \"a\" is named twice");
  EXPECT_EQ(refusal(R"([{"node": "a", "device_type": "x", "devices": 2147483647},
                        {"node": "b", "device_type": "x", "devices": 1}])"),
            "too many devices");
}

TEST(JobPlacements, OfAJobComeFromItsEvents) {
  State state;
  const auto add = [&](const char* type, json body) {
    Event event{.seq = state.last_seq + 1,
                .at = 1.0 + static_cast<double>(state.last_seq),
                .type = type,
                .job = 1,
                .tenant = "red",
                .body = std::move(body)};
    return state.apply(event);
  };
  ASSERT_TRUE(add("submitted", {{"document", {{"run", {"x"}}, {"devices", "1..8"}}}}).ok());
  const JobRecord& job = state.jobs.at(1);
  ASSERT_TRUE(
      add("granted", {{"devices", 6}, {"reason", "started"}, {"nodes", placement_json(kTwo)}})
          .ok());
  EXPECT_EQ(job.nodes, kTwo);
  ASSERT_TRUE(add("held", {{"devices", 6}, {"nodes", placement_json(kTwo)}}).ok());
  EXPECT_EQ(job.held_nodes, kTwo);
  EXPECT_EQ(to_json(job)["nodes"], placement_json(kTwo));
  EXPECT_EQ(job_from_json(to_json(job))->held_nodes, kTwo);

  const Status wrong =
      add("granted", {{"devices", 5}, {"reason", "shrunk"}, {"nodes", placement_json(kTwo)}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message,
            "event 'granted' of job j1: nodes: they have 6 devices together; expected 5");

  // The same number of devices elsewhere is a change too; other names are none.
  const JobPlacement moved{{"gpu3", "a100", 6}};
  ASSERT_TRUE(
      add("granted", {{"devices", 6}, {"reason", "grown"}, {"nodes", placement_json(moved)}}).ok());
  EXPECT_EQ(job.resizes, 1);
  ASSERT_TRUE(add("placed", {{"nodes", placement_json(kTwo)}}).ok());
  EXPECT_EQ(job.nodes, kTwo);
  EXPECT_EQ(job.resizes, 1);
  EXPECT_FALSE(add("placed", {{"nodes", placement_json({{"gpu1", "a100", 1}})}}).ok());
  ASSERT_TRUE(add("paused", json::object()).ok());
  EXPECT_TRUE(job.nodes.empty());
  EXPECT_EQ(job.held_nodes, kTwo);
}

TEST(LiveClusters, TranslateBetweenNamesAndNumbers) {
  const auto made = LiveCluster::make({{.name = "gpu2", .device_type = "a100", .devices = 4},
                                       {.name = "cpu", .device_type = "cpu", .devices = 16},
                                       {.name = "gpu1", .device_type = "a100", .devices = 8}});
  ASSERT_TRUE(made.ok());
  JobRecord job;
  job.granted = 6;
  job.nodes = kTwo;
  const Allocation allocation = made->allocation_of(job);
  ASSERT_EQ(allocation.shares.size(), 2U);
  EXPECT_EQ(allocation.shares[0], (NodeShare{NodeId(2), 4}));
  EXPECT_EQ(allocation.shares[1], (NodeShare{NodeId(0), 2}));
  EXPECT_EQ(made->placement_of(allocation), kTwo);
  EXPECT_EQ(made->devices(), 28);
  EXPECT_EQ(made->device_types(), "a100, cpu");
  const auto of_type = [](const char* type) {
    JobDocument document;
    document.device_type = type;
    return document;
  };
  EXPECT_EQ(made->most_devices(of_type("")), 16);
  EXPECT_EQ(made->most_devices(of_type("a100")), 12);
  EXPECT_EQ(made->most_devices(of_type("t4")), 0);
  EXPECT_EQ(made->type_of(job), "a100");
  job.nodes.push_back({"gone", "a100", 3});
  EXPECT_EQ(made->allocation_of(job).devices(), 6) << "a node that is not there";
}

TEST(LiveClusters, RefuseNodesThatCannotBeToldApart) {
  const auto refusal = [](std::vector<LiveNode> nodes) {
    const auto made = LiveCluster::make(std::move(nodes));
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{.name = "a b", .device_type = "x", .devices = 1}}),
            "the name of node 'a b' may have only letters, digits, '-', '_' and '.'");
  EXPECT_EQ(refusal({{.name = "a", .device_type = "x", .devices = 0}}), "node a has no devices");
  std::vector<LiveNode> nodes;
  for (int i = 0; i < 9; ++i) {
    nodes.push_back(
        {.name = "n" + std::to_string(i), .device_type = "t" + std::to_string(i), .devices = 1});
  }
  EXPECT_EQ(refusal(nodes), "the nodes have devices of 9 types; a cluster can have at most 8");
}

}  // namespace
}  // namespace rubato::control
