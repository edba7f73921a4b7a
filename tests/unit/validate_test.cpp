#include "sched/validate.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <set>
#include <string>

#include "unit/sched_helpers.h"

namespace rubato {
namespace {

constexpr DeviceTypeId kA{0};
constexpr DeviceTypeId kB{1};

// Nodes 0 and 1 have 4 devices of type a (only 3 usable on node 1), node 2 has 8 of type b. Job 0
// is adaptive (1 to 6 devices, batch 32 to 256), job 1 rigid (2 devices of type a only, batch 64),
// job 2 consistent (2 to 4 devices, batch 64).
class Validate : public testing::Test {
 protected:
  Validate() {
    add(ElasticMode::kAdaptive, 1, 6, 1);
    add(ElasticMode::kRigid, 2, 2, 2).allowed_types = 0b01;
    add(ElasticMode::kConsistent, 2, 4, 2);
    for (const JobState& state : states_) pointers_.push_back(&state);
    by_type_[kA] = 7;
    by_type_[kB] = 8;
    // A valid plan.
    plan_.grants.resize(3);
    for (std::size_t i = 0; i < 3; ++i) plan_.grants[i].job = JobId(i);
    plan_.grants[0].devices[kB] = 5;
    plan_.grants[0].batch = 128;
    plan_.grants[1].devices[kA] = 2;
    plan_.grants[1].nodes = std::vector{at(0, 1), at(1, 1)};
    plan_.grants[2].devices[kA] = 4;
    plan_.grants[2].batch = 64;
    plan_.placement_order = {2, 0, 1};
  }
  JobSpec& add(ElasticMode mode, int low, int high, int requested) {
    JobSpec& spec = states_.emplace_back().spec;
    spec.id = JobId(states_.size() - 1);
    spec.name = "job" + std::to_string(spec.id.value);
    spec.mode = mode;
    spec.min_devices = low;
    spec.max_devices = high;
    spec.requested_devices = requested;
    spec.batch = {.initial = 32, .max = 256, .min_local = 4, .max_local = 64};
    spec.requested_batch = 64;
    return spec;
  }
  std::optional<PlanError> check() const {
    return validate(plan_, {.cluster = cluster_,
                            .usable = usable_,
                            .usable_by_type = by_type_,
                            .jobs = pointers_,
                            .finished = {}});
  }
  // The name of the fault for which the plan is rejected.
  std::string fault() const {
    const auto error = check();
    if (!error) return "(valid)";
    // The message starts with the name.
    EXPECT_TRUE(error->message.starts_with(name(error->fault))) << error->message;
    return std::string(name(error->fault));
  }
  Grant& grant(std::size_t job) { return plan_.grants[job]; }

  Cluster cluster_ = *Cluster::parse("2x4:a,1x8:b");
  std::vector<int> usable_{4, 3, 8};
  DeviceCounts by_type_;
  std::deque<JobState> states_;
  std::vector<const JobState*> pointers_;
  Plan plan_;
};

TEST_F(Validate, AGoodPlanPasses) {
  const auto error = check();
  EXPECT_FALSE(error.has_value()) << error->message;
}

TEST_F(Validate, GivingNothingIsAllowed) {
  for (std::size_t i = 0; i < 3; ++i) grant(i) = {.job = JobId(i)};
  plan_.placement_order.clear();
  EXPECT_EQ(fault(), "(valid)");
  plan_ = {};
  pointers_.clear();
  EXPECT_EQ(fault(), "(valid)");
}

TEST_F(Validate, WrongJobCount) {
  plan_.grants.pop_back();
  plan_.placement_order = {0, 1};
  EXPECT_EQ(fault(), "wrong-job-count");
  plan_.grants.resize(4);
  EXPECT_EQ(fault(), "wrong-job-count");
}

TEST_F(Validate, WrongJob) {
  std::swap(grant(0).job, grant(2).job);
  EXPECT_EQ(fault(), "wrong-job");
}

TEST_F(Validate, NegativeDevices) {
  grant(0).devices[kB] = -1;
  EXPECT_EQ(fault(), "negative-devices");
  grant(0).devices[kB] = 5;
  grant(0).devices[kA] = -5;  // adds up to 0
  EXPECT_EQ(fault(), "negative-devices");
}

TEST_F(Validate, NegativeDevicesOnAFixedNode) {
  grant(1).nodes = std::vector{at(0, 3), at(1, -1)};
  EXPECT_EQ(fault(), "negative-devices");
  grant(1).nodes = std::vector{at(0, 2), at(1, 0)};
  EXPECT_EQ(fault(), "negative-devices");
}

TEST_F(Validate, TypeNotAllowed) {
  grant(1) = {.job = JobId(1)};
  grant(1).devices[kB] = 2;
  EXPECT_EQ(fault(), "type-not-allowed");
}

TEST_F(Validate, TypeThatDoesNotExist) {
  grant(0).devices = {};
  grant(0).devices.of[kMaxDeviceTypes - 1] = 1;
  EXPECT_EQ(fault(), "type-not-allowed");
}

TEST_F(Validate, MixedTypes) {
  grant(0).devices[kA] = 1;
  grant(0).devices[kB] = 1;
  EXPECT_EQ(fault(), "mixed-types");
}

TEST_F(Validate, BelowMinimum) {
  grant(2).devices[kA] = 1;
  EXPECT_EQ(fault(), "below-minimum");
}

TEST_F(Validate, AboveMaximum) {
  grant(0).devices[kB] = 7;
  EXPECT_EQ(fault(), "above-maximum");
}

TEST_F(Validate, RigidResized) {
  for (const int devices : {1, 3}) {
    grant(1) = {.job = JobId(1)};
    grant(1).devices[kA] = devices;
    EXPECT_EQ(fault(), "rigid-resized") << devices;
  }
}

TEST_F(Validate, TooManyDevices) {
  grant(0).devices = {};
  grant(0).devices[kA] = 2;  // 2 + 2 + 4 of the 7 usable
  EXPECT_EQ(fault(), "too-many-devices");
  by_type_[kA] = 8;
  EXPECT_EQ(fault(), "(valid)");
}

TEST_F(Validate, BatchNotAllowed) {
  for (const std::int64_t batch : {31, 257, -1}) {
    grant(0).batch = batch;  // adaptive: 32 to 256
    EXPECT_EQ(fault(), "batch-not-allowed") << batch;
  }
  grant(0).batch = 256;
  EXPECT_EQ(fault(), "(valid)");
  grant(2).batch = 65;  // consistent: only its own batch
  EXPECT_EQ(fault(), "batch-not-allowed");
  grant(2).batch = 0;
  EXPECT_EQ(fault(), "(valid)");
  grant(1).batch = 128;  // rigid too
  EXPECT_EQ(fault(), "batch-not-allowed");
}

TEST_F(Validate, UnknownNode) {
  for (const std::int32_t node : {-1, 3, 1'000'000}) {
    grant(1).nodes = std::vector{at(0, 1), at(node, 1)};
    EXPECT_EQ(fault(), "unknown-node") << node;
  }
}

TEST_F(Validate, ANodeOfAnotherTypeIsUnknownToo) {
  // "a fixed node that does not exist or has no devices of that type"
  grant(1).nodes = std::vector{at(0, 1), at(2, 1)};
  EXPECT_EQ(fault(), "unknown-node");
}

TEST_F(Validate, NodeListedTwice) {
  grant(1).nodes = std::vector{at(0, 1), at(0, 1)};
  EXPECT_EQ(fault(), "node-listed-twice");
}

TEST_F(Validate, NodesDisagree) {
  grant(1).nodes = std::vector{at(0, 1)};
  EXPECT_EQ(fault(), "nodes-disagree");
  grant(1).nodes = std::vector{at(0, 1), at(1, 2)};
  EXPECT_EQ(fault(), "nodes-disagree");
  grant(1).nodes = std::vector<NodeShare>{};
  EXPECT_EQ(fault(), "nodes-disagree");
}

TEST_F(Validate, NodeOvercommitted) {
  grant(2).nodes = std::vector{at(1, 3), at(0, 1)};  // node 1: 1 + 3 of 3 usable
  EXPECT_EQ(fault(), "node-overcommitted");
  grant(2).nodes = std::vector{at(1, 2), at(0, 2)};
  EXPECT_EQ(fault(), "(valid)");
}

TEST_F(Validate, BadPlacementOrder) {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, 2, 0}}) {
    plan_.placement_order = order;
    EXPECT_EQ(fault(), "bad-placement-order");
  }
}

TEST_F(Validate, TheMessageNamesTheJobAndTheNumbers) {
  grant(0).devices[kB] = 7;
  EXPECT_EQ(check()->message, "above-maximum: job 'job0': 7 devices, maximum 6");
}

TEST_F(Validate, EveryFaultHasItsOwnName) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(PlanFault::kBadPlacementOrder); ++i) {
    const std::string_view text = name(static_cast<PlanFault>(i));
    EXPECT_NE(text, "?");
    EXPECT_TRUE(names.insert(text).second) << text;
  }
  EXPECT_EQ(names.size(), 16U);
}

}  // namespace
}  // namespace rubato
