// Clusters, placements and job specs.
#include "model/cluster.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/job.h"
#include "model/speed.h"

namespace rubato {
namespace {

TEST(Cluster, ParsesNodesTimesDevices) {
  const auto cluster = Cluster::parse("16x4");
  ASSERT_TRUE(cluster.ok());
  EXPECT_EQ(cluster->nodes().size(), 16U);
  EXPECT_EQ(cluster->devices(), 64);
  EXPECT_EQ(cluster->type_count(), 1U);
  EXPECT_EQ(cluster->type_name(DeviceTypeId(0)), "gpu");
  EXPECT_EQ(cluster->node(NodeId(15)).devices, 4);
  EXPECT_EQ(cluster->node(NodeId(15)).id, NodeId(15));
}

TEST(Cluster, ParsesSeveralTypes) {
  const auto cluster = Cluster::parse("6x4:t4,3x8:rtx,1x2:t4,2x8:a100");
  ASSERT_TRUE(cluster.ok());
  EXPECT_EQ(cluster->nodes().size(), 12U);
  ASSERT_EQ(cluster->type_count(), 3U);
  const DeviceTypeId t4 = cluster->find_type("t4");
  EXPECT_EQ(t4, DeviceTypeId(0));
  EXPECT_EQ(cluster->capacity()[t4], 26);  // 6 x 4 + 1 x 2
  EXPECT_EQ(cluster->nodes_of(t4), 7);
  EXPECT_EQ(cluster->node_size(t4), 4);  // the largest of them
  EXPECT_EQ(cluster->capacity()[cluster->find_type("rtx")], 24);
  EXPECT_EQ(cluster->devices(), 66);  // 26 + 24 + 16
  EXPECT_FALSE(cluster->find_type("v100").valid());
  EXPECT_EQ(cluster->node(NodeId(9)).type, t4);
}

TEST(Cluster, RefusesWhatIsNoShape) {
  for (const char* bad : {"",
                          "4",
                          "x4",
                          "4x",
                          "4x4,",
                          ",4x4",
                          "0x4",
                          "4x0",
                          "-1x4",
                          "4x-1",
                          "4x4:",
                          "4*4",
                          "4x4x4",
                          "4.0x4",
                          " 4x4",
                          "4X4",
                          "100001x1",
                          "1x1025",
                          "99999999999999999999x1",
                          "axb"}) {
    const auto cluster = Cluster::parse(bad);
    ASSERT_FALSE(cluster.ok()) << "'" << bad << "'";
    EXPECT_EQ(cluster.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(cluster.error().message.find("NODESxDEVICES"), std::string::npos);
  }
  EXPECT_FALSE(Cluster::parse("60000x1,60000x1").ok());
  EXPECT_TRUE(Cluster::parse("1x1024").ok());
}

TEST(Cluster, HoldsEightTypesAndNoMore) {
  EXPECT_TRUE(Cluster::parse("1x1:a,1x1:b,1x1:c,1x1:d,1x1:e,1x1:f,1x1:g,1x1:h").ok());
  const auto nine = Cluster::parse("1x1:a,1x1:b,1x1:c,1x1:d,1x1:e,1x1:f,1x1:g,1x1:h,1x1:i");
  ASSERT_FALSE(nine.ok());
  EXPECT_NE(nine.error().message.find("more than 8 device types"), std::string::npos);
}

TEST(DeviceCounts, KnowsItsOnlyType) {
  DeviceCounts counts;
  EXPECT_EQ(counts.total(), 0);
  EXPECT_FALSE(counts.single_type().valid());
  counts[DeviceTypeId(3)] = 5;
  EXPECT_EQ(counts.total(), 5);
  EXPECT_EQ(counts.single_type(), DeviceTypeId(3));
  counts[DeviceTypeId(0)] = 2;
  EXPECT_EQ(counts.total(), 7);
  EXPECT_FALSE(counts.single_type().valid());
}

TEST(Placement, PacksOnAsFewNodesAsPossible) {
  const auto packed = [](int devices) {
    const Placement p = Placement::packed(DeviceTypeId(1), devices, 4);
    EXPECT_EQ(p.devices(), devices);
    EXPECT_EQ(p.type(), DeviceTypeId(1));
    return std::vector<int>(p.per_node().begin(), p.per_node().end());
  };
  EXPECT_EQ(packed(3), (std::vector<int>{3}));
  EXPECT_EQ(packed(4), (std::vector<int>{4}));
  EXPECT_EQ(packed(10), (std::vector<int>{4, 4, 2}));
  EXPECT_EQ(packed(0), (std::vector<int>{}));
  EXPECT_EQ(Placement().devices(), 0);
  EXPECT_EQ(Placement(DeviceTypeId(0), {2, 1}).nodes(), 2);
}

TEST(StepTime, AnUpdateAddsTheMicroBatchesWithoutSynchronisation) {
  const StepTime time{.step_s = 0.5, .sync_s = 0.2};
  EXPECT_DOUBLE_EQ(time.update_s({.local = 8, .accumulation = 0}), 0.5);
  EXPECT_DOUBLE_EQ(time.update_s({.local = 8, .accumulation = 3}), 1.4);  // 0.5 + 3 x 0.3
}

TEST(Job, ModesHaveNames) {
  for (const ElasticMode mode :
       {ElasticMode::kConsistent, ElasticMode::kAdaptive, ElasticMode::kRigid}) {
    EXPECT_EQ(parse_elastic_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(to_string(ElasticMode::kRigid), "rigid");
  EXPECT_FALSE(parse_elastic_mode("Rigid").has_value());
  EXPECT_FALSE(parse_elastic_mode("").has_value());
}

TEST(Job, AllowsTheTypesOfItsMask) {
  JobSpec spec;
  EXPECT_TRUE(spec.allows(DeviceTypeId(0)) && spec.allows(DeviceTypeId(7)));
  spec.allowed_types = 0b101;
  EXPECT_TRUE(spec.allows(DeviceTypeId(0)));
  EXPECT_FALSE(spec.allows(DeviceTypeId(1)));
  EXPECT_TRUE(spec.allows(DeviceTypeId(2)));
}

}  // namespace
}  // namespace rubato
