#include "sched/scalability.h"

#include <gtest/gtest.h>

#include "model/jsa.h"
#include "model/scaling_law.h"

namespace rubato {
namespace {

// One device: 10 ms + 1 ms per sample. Devices of a node synchronise in 2 (k-1)/k x 10 ms.
class Analyzer : public testing::Test {
 protected:
  Analyzer() {
    Network network;
    network.within_node = {.bytes_per_s = 1e9, .latency_s = 0};
    speed_ = std::make_unique<JsaSpeed>(
        std::vector<JsaSpeed::Processed>{{1, 0.011}, {16, 0.026}, {64, 0.074}}, 10e6, network);
    JobSpec& spec = job_.spec;
    spec.id = JobId(0);
    spec.mode = ElasticMode::kAdaptive;
    spec.max_devices = 8;
    spec.batch = {.initial = 16, .max = 128, .min_local = 4, .max_local = 64};
    spec.requested_batch = 16;
    job_.profiled = speed_.get();
  }

  const Cluster cluster_ = *Cluster::parse("1x8");
  const DeviceTypeId type_{std::size_t{0}};
  std::unique_ptr<SpeedModel> speed_;
  JobState job_;
  ScalabilityAnalyzer analyzer_;
};

TEST_F(Analyzer, ChoosesTheLargestBatchThatFitsWhereEverySampleCosts) {
  const Scalability& table = analyzer_.of(job_, type_, 8, allowed_batches(job_.spec), cluster_);
  ASSERT_EQ(table.sizes.low, 1);
  ASSERT_EQ(table.sizes.high, 8);
  // Reference: 64 samples in 74 ms. Two devices: 128 samples in 74 + 10 ms.
  EXPECT_EQ(table.on(2).batch, 128);
  EXPECT_NEAR(table.on(2).speedup, (128 / 0.084) / (64 / 0.074), 1e-9);
  // Four devices share the same 128 samples: 10 + 32 + 15 ms.
  EXPECT_EQ(table.on(4).batch, 128);
  EXPECT_NEAR(table.on(4).speedup, (128 / 0.057) / (64 / 0.074), 1e-9);
}

TEST_F(Analyzer, FixedBatchBoundsTheDevices) {
  const SizeRange largest = sizes_for(job_.spec, {128, 128});
  EXPECT_EQ(largest.low, 2);  // 128 / 64
  EXPECT_EQ(largest.high, 8);
  const SizeRange smallest = sizes_for(job_.spec, {16, 16});
  EXPECT_EQ(smallest.low, 1);
  EXPECT_EQ(smallest.high, 4);  // 16 / 4
}

TEST_F(Analyzer, TheJobsOwnRangeWins) {
  job_.spec.min_devices = 5;
  EXPECT_EQ(sizes_for(job_.spec, {16, 16}).low, 5);
  EXPECT_EQ(sizes_for(job_.spec, {16, 16}).high, 5);
  job_.spec.min_devices = job_.spec.max_devices = 1;
  EXPECT_EQ(sizes_for(job_.spec, {128, 128}).low, 1);  // accumulates
}

TEST_F(Analyzer, OnlyAdaptiveJobsMayChangeTheirBatch) {
  EXPECT_EQ(allowed_batches(job_.spec), (BatchRange{16, 128}));
  job_.spec.mode = ElasticMode::kConsistent;
  job_.spec.requested_batch = 32;
  EXPECT_EQ(allowed_batches(job_.spec), (BatchRange{32, 32}));
  const Scalability& table = analyzer_.of(job_, type_, 8, allowed_batches(job_.spec), cluster_);
  for (int devices = table.sizes.low; devices <= table.sizes.high; ++devices) {
    EXPECT_EQ(table.on(devices).batch, 32);
  }
}

TEST_F(Analyzer, ATypeThatIsTooSmallIsImpossible) {
  job_.spec.mode = ElasticMode::kRigid;
  job_.spec.requested_devices = 4;
  EXPECT_FALSE(analyzer_.of(job_, type_, 3, allowed_batches(job_.spec), cluster_).possible());
}

TEST_F(Analyzer, JobsThatAreAlikeShareATable) {
  JobState other = job_;
  other.spec.id = JobId(1);
  const BatchRange batches = allowed_batches(job_.spec);
  const Scalability* first = &analyzer_.of(job_, type_, 8, batches, cluster_);
  EXPECT_EQ(first, &analyzer_.of(other, type_, 8, batches, cluster_));
  other.spec.id = JobId(2);
  EXPECT_NE(first, &analyzer_.of(other, type_, 8, {16, 16}, cluster_));
}

TEST_F(Analyzer, JobsWithoutBatchesFollowTheirScalingLaw) {
  const RequestedDurationSpeed law(2, ScalingLaw{.exponent = 0.5});
  job_.spec.batch = {};
  job_.spec.mode = ElasticMode::kConsistent;
  job_.profiled = &law;
  const Scalability& table = analyzer_.of(job_, type_, 8, allowed_batches(job_.spec), cluster_);
  EXPECT_NEAR(table.on(4).speedup, 2, 1e-9);
  EXPECT_EQ(table.on(4).batch, 0);
}

}  // namespace
}  // namespace rubato
