// What drivers tell of devices. No driver is here: libraries that the tests build stand in for
// NVIDIA's (fake_nvml/).
#include "control/device_use.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "control/cluster/node_sync.h"
#include "control/device_watch.h"
#include "control/nvml.h"
#include "control/series_store.h"
#include "control/temporary_folder.h"
#include "test_paths.h"

namespace rubato::control {
namespace {

using nlohmann::json;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::string fake(const std::string& name) { return test_paths::program("lib" + name + ".so"); }

bool soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Nvml, ReadsDevicesByUuidAndByNumber) {
  const auto nvml = Nvml::load(fake("fake_nvml"));
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  for (const char* name : {"GPU-bbbb", "1"}) {
    const DeviceUse use = (*nvml)->read(name);
    EXPECT_EQ(use.utilisation, 0.75) << name;
    EXPECT_EQ(use.memory_used, 30 * kGiB) << name;
    EXPECT_EQ(use.memory, 80 * kGiB) << name;
  }
  for (const char* name : {"GPU-cccc", "2", "-1", "", "MIG-x"}) {
    const DeviceUse use = (*nvml)->read(name);
    EXPECT_FALSE(use.utilisation || use.memory_used || use.memory) << name;
  }
}

TEST(Nvml, WhatItCannotTellIsMissing) {
  const auto nvml = Nvml::load(fake("fake_nvml_little"));
  ASSERT_TRUE(nvml.ok()) << nvml.error().message;
  EXPECT_FALSE((*nvml)->read("GPU-aaaa").utilisation);
  EXPECT_EQ((*nvml)->read("GPU-aaaa").memory_used, 10 * kGiB);
  EXPECT_FALSE((*nvml)->read("GPU-bbbb").memory);
}

TEST(Nvml, SaysWhyItCannotBeUsed) {
  EXPECT_NE(Nvml::load("/nowhere/libnvidia-ml.so.1").error().message.find("cannot be loaded"),
            std::string::npos);
  EXPECT_NE(Nvml::load(fake("fake_nvml_lacking")).error().message.find("nvmlDeviceGetMemoryInfo"),
            std::string::npos);
  EXPECT_NE(Nvml::load(fake("fake_nvml_no_driver")).error().message.find("finds no driver"),
            std::string::npos);
}

TEST(DeviceWatch, TellsTheDevicesInTheirOrder) {
  const DeviceWatch watch(fake("fake_nvml"), {"GPU-bbbb", "GPU-cccc", "GPU-aaaa"});
  ASSERT_TRUE(soon([&] { return !watch.newest().empty(); }));
  const std::vector<DeviceUse> use = watch.newest();
  ASSERT_EQ(use.size(), 2U) << "nothing is known of the second";
  EXPECT_EQ(use[0].index, 0);
  EXPECT_EQ(use[0].utilisation, 0.75);
  EXPECT_EQ(use[1].index, 2);
  EXPECT_EQ(use[1].utilisation, 0.25);
}

TEST(DeviceWatch, WithoutADriverThereIsNothingAndNobodyWaits) {
  for (const char* library : {"fake_nvml_no_driver", "fake_nvml_lacking", "fake_nvml_failing"}) {
    const DeviceWatch watch(fake(library), {"GPU-aaaa"}, std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(watch.newest().empty()) << library;
  }
}

TEST(DeviceUse, AnAgentsReportIsChecked) {
  NodeReport report{.node = {.name = "n1", .device_type = "gpu", .devices = 2}, .start = 1};
  report.use.push_back({.node = "n1", .index = 1, .job = 3, .utilisation = 0.5, .memory = kGiB});
  const json said = to_json(report);
  const auto read = node_report_from(said);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->use.size(), 1U);
  EXPECT_EQ(read->use[0].node, "n1");
  EXPECT_EQ(read->use[0].index, 1);
  EXPECT_EQ(read->use[0].job, 3);
  EXPECT_EQ(read->use[0].utilisation, 0.5);
  EXPECT_EQ(read->use[0].memory, kGiB);
  EXPECT_FALSE(read->use[0].memory_used) << "unknown is not zero";
  json earlier = said;
  earlier.erase("use");
  EXPECT_TRUE(node_report_from(earlier).ok()) << "an agent of an earlier version";
  for (const json& wrong :
       {json(3), json({1}), json({json::object()}), json({{{"index", 2}}}), json({{{"index", -1}}}),
        json({{{"index", 0}, {"utilisation", 1.5}}}), json({{{"index", 0}, {"utilisation", "x"}}}),
        json({{{"index", 0}, {"memory", -1}}}), json({{{"index", 0}, {"memory", 1e300}}}),
        json::array({json::object(), json::object(), json::object()})}) {
    json altered = said;
    altered["use"] = wrong;
    EXPECT_FALSE(node_report_from(altered).ok()) << wrong;
  }
}

class UseSeriesTest : public ::testing::Test {
 protected:
  UseSeriesTest() {
    auto store = SeriesStore::open(folder_.path(), "log", 1000);
    EXPECT_TRUE(store.ok());
    store_ = std::move(*store);
  }
  void add(double at, UseValues use) {
    const ClusterSample sample{.at = at, .use = use};
    ASSERT_TRUE(store_->add({&sample, 1}, {}).ok());
  }
  static constexpr double kNoon = 1'800'000'000;
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
};

TEST_F(UseSeriesTest, MeansAreOfWhatIsKnown) {
  add(kNoon, {0.5, kUnknownUse});
  add(kNoon + 1, {kUnknownUse, kUnknownUse});
  add(kNoon + 5, {kUnknownUse, kUnknownUse});
  add(kNoon + 10, {0.25, 0.5});
  const json series = to_json(*store_->read({.from = kNoon, .to = kNoon + 14, .step = 5}));
  EXPECT_EQ(series["utilisation"], json({0.5, nullptr, 0.25})) << series;
  EXPECT_EQ(series["memory"], json({nullptr, nullptr, 0.5})) << series;
}

TEST_F(UseSeriesTest, WithoutADriverTheColumnsAreMissing) {
  add(kNoon, {kUnknownUse, kUnknownUse});
  const json series = to_json(*store_->read({.from = kNoon, .to = kNoon + 14, .step = 5}));
  EXPECT_EQ(series["at"].size(), 1U);
  EXPECT_FALSE(series.contains("utilisation")) << series;
  EXPECT_FALSE(to_json(ClusterSample{}).contains("memory"));
  EXPECT_FALSE(to_json(JobPoint{}).contains("utilisation"));
}

TEST_F(UseSeriesTest, PointsOfAJobKeepIt) {
  const JobPoint point{.job = 1, .at = kNoon, .held = 1, .use = {0.75, kUnknownUse}};
  ASSERT_TRUE(store_->add({}, {&point, 1}).ok());
  const auto points = store_->points(1);
  ASSERT_EQ(points->size(), 1U);
  EXPECT_EQ((*points)[0].use[0], 0.75);
  EXPECT_FALSE(to_json((*points)[0]).contains("memory"));
}

}  // namespace
}  // namespace rubato::control
