// Pinned jobs come first, whatever the policy would do. The comments say who should have what.
#include "sched/pinned_policy.h"

#include <gtest/gtest.h>

#include "sched/scheduler.h"
#include "sched/tenant_policy.h"

namespace rubato {
namespace {

constexpr DeviceTypeId kType{0};

class FakeClock final : public Clock {
 public:
  Seconds now_s() const override { return 0; }
};

class NoExecutor final : public Executor {
 public:
  void apply(std::span<const Action>) override {}
};

// In order of arrival everybody gets as much as it can use.
class GreedyPolicy final : public Policy {
 public:
  Plan decide(const PolicyInput& input) override {
    Plan plan;
    int left = input.usable_by_type.total();
    for (const JobState* job : input.jobs) {
      EXPECT_EQ(job->spec.pinned_devices, 0) << "a policy sees no pins";
      Grant& grant = plan.grants.emplace_back();
      grant.job = job->spec.id;
      if (job->spec.min_devices > left) continue;
      grant.devices[kType] = std::min(left, job->spec.max_devices);
      left -= grant.devices[kType];
    }
    return plan;
  }
};

class Pins : public testing::Test {
 protected:
  void start(std::string_view cluster, const TenantRules& rules = {}) {
    cluster_ = *Cluster::parse(cluster);
    info_.name = "greedy";
    auto tenants = std::make_unique<TenantPolicy>(
        [](const std::string&) { return std::make_unique<GreedyPolicy>(); }, rules);
    scheduler_ = std::make_unique<Scheduler>(
        cluster_, info_, std::make_unique<PinnedPolicy>(std::move(tenants), rules), clock_,
        executor_);
  }
  void submit(int id, int low, int high, int pinned = 0, const std::string& tenant = "default") {
    ASSERT_TRUE(scheduler_->submit(spec(id, low, high, pinned, tenant), {}).ok());
  }
  void pin(int id, int devices) {
    JobSpec changed = scheduler_->find(JobId(id))->spec;
    changed.pinned_devices = devices;
    ASSERT_TRUE(scheduler_->update(changed, {}).ok());
  }
  // Devices of the jobs in order of arrival, after a decision.
  std::vector<int> round() {
    const auto record = scheduler_->round();
    EXPECT_TRUE(record.ok()) << record.error().message;
    std::vector<int> devices;
    for (const JobState* job : scheduler_->jobs()) devices.push_back(job->allocation.devices());
    return devices;
  }
  Reason reason(int id) const { return scheduler_->find(JobId(id))->reason; }

  static JobSpec spec(int id, int low, int high, int pinned, const std::string& tenant) {
    JobSpec made;
    made.id = JobId(id);
    made.name = "job" + std::to_string(id);
    made.tenant = tenant;
    made.min_devices = made.requested_devices = low;
    made.max_devices = high;
    made.pinned_devices = pinned;
    return made;
  }

  Cluster cluster_;
  PolicyInfo info_;
  FakeClock clock_;
  NoExecutor executor_;
  std::unique_ptr<Scheduler> scheduler_;
};

using Devices = std::vector<int>;

// It was queued with no devices until its pin was removed.
TEST_F(Pins, APinnedJobHasItsDevicesBeforeJobsThatThePolicyPrefers) {
  start("1x4");
  for (const int id : {1, 2, 3}) submit(id, 1, 4);
  EXPECT_EQ(round(), (Devices{4, 0, 0}));
  pin(2, 3);  // the last device is left to the first job
  EXPECT_EQ(round(), (Devices{1, 3, 0}));
  EXPECT_EQ(reason(2), Reason::kPinned);
  EXPECT_EQ(reason(1), Reason::kShrunk);
  pin(2, 4);  // everybody else stops
  EXPECT_EQ(round(), (Devices{0, 4, 0}));
  EXPECT_EQ(reason(1), Reason::kPreempted);
  pin(2, 0);
  EXPECT_EQ(round(), (Devices{4, 0, 0}));
}

TEST_F(Pins, APinIsExact) {
  start("1x4");
  submit(1, 1, 4);
  EXPECT_EQ(round(), Devices{4});
  pin(1, 2);
  EXPECT_EQ(round(), Devices{2});
  EXPECT_EQ(reason(1), Reason::kPinned);
}

// The first pin stays, the second one is suspended: its job has what is left, at most its number.
TEST_F(Pins, APinThatCannotBeHonouredIsSuspendedAndComesBack) {
  start("1x6");
  submit(1, 1, 4, 3);
  submit(2, 1, 6, 3);
  EXPECT_EQ(round(), (Devices{3, 3}));
  scheduler_->set_reserved(kType, 2);
  EXPECT_EQ(round(), (Devices{3, 1}));
  scheduler_->set_reserved(kType, 3);
  EXPECT_EQ(round(), (Devices{3, 0}));
  scheduler_->set_reserved(kType, 0);
  EXPECT_EQ(round(), (Devices{3, 3}));
}

TEST_F(Pins, ASuspendedPinIsTheMostThatItsJobGets) {
  start("1x6");
  submit(1, 2, 4, 4);
  submit(2, 1, 6, 3);
  EXPECT_EQ(round(), (Devices{4, 2}));
}

TEST_F(Pins, ReservedDevicesAreTakenFromJobsWithoutAPinFirst) {
  start("1x4");
  submit(1, 1, 4);
  submit(2, 1, 4, 2);
  EXPECT_EQ(round(), (Devices{2, 2}));
  scheduler_->set_reserved(kType, 1);
  EXPECT_EQ(scheduler_->find(JobId(1))->allocation.devices(), 1);
  EXPECT_EQ(scheduler_->find(JobId(2))->allocation.devices(), 2);
}

TEST_F(Pins, APinnedJobKeepsItsNodes) {
  start("2x4");
  submit(1, 1, 4);
  submit(2, 1, 8, 3);
  round();
  const Allocation before = scheduler_->find(JobId(2))->allocation;
  ASSERT_EQ(before.devices(), 3);
  for (const int id : {3, 4}) submit(id, 1, 8);
  round();
  EXPECT_EQ(scheduler_->find(JobId(2))->allocation, before);
}

TEST_F(Pins, CountForTheQuotaOfTheirTenant) {
  start("1x8", {{"red", {.quota = 4}}});
  submit(1, 1, 8, 3, "red");
  submit(2, 1, 8, 0, "red");
  submit(3, 1, 2, 0, "blue");
  EXPECT_EQ(round(), (Devices{3, 1, 2}));
  pin(1, 4);
  EXPECT_EQ(round(), (Devices{4, 0, 2}));
  EXPECT_EQ(reason(2), Reason::kTenantQuota);
}

TEST_F(Pins, AboveTheQuotaOfTheirTenantAreSuspended) {
  start("1x8", {{"red", {.quota = 4}}});
  submit(1, 1, 8, 3, "red");
  submit(2, 1, 8, 2, "red");
  EXPECT_EQ(round(), (Devices{3, 1}));
}

// Of 8 devices 4 are a tenant's share. Red has pinned 5, so blue has all of the rest.
TEST_F(Pins, CountForTheShareOfTheirTenant) {
  start("1x8");
  submit(1, 1, 8, 5, "red");
  submit(2, 1, 8, 0, "red");
  submit(3, 1, 8, 0, "blue");
  EXPECT_EQ(round(), (Devices{5, 0, 3}));
}

TEST_F(Pins, OutsideOfTheRangeAreRefused) {
  start("1x4");
  EXPECT_FALSE(scheduler_->submit(spec(1, 2, 3, 4, "red"), {}).ok());
  EXPECT_FALSE(scheduler_->submit(spec(1, 2, 3, 1, "red"), {}).ok());
}

}  // namespace
}  // namespace rubato
