// Fairness between tenants, step by step. The comments say what each tenant should have.
#include "sched/tenant_policy.h"

#include <gtest/gtest.h>

#include "sched/scheduler.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

class NoExecutor final : public Executor {
 public:
  void apply(std::span<const Action>) override {}
};

// All jobs get their smallest size in order of arrival, then one more device each, and so on.
class FillPolicy final : public Policy {
 public:
  Plan decide(const PolicyInput& input) override {
    Plan plan;
    int left = input.usable_by_type.total();
    for (const JobState* job : input.jobs) {
      Grant& grant = plan.grants.emplace_back();
      grant.job = job->spec.id;
      if (job->spec.min_devices > left) continue;
      grant.devices.of[0] = job->spec.min_devices;
      left -= job->spec.min_devices;
    }
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < plan.grants.size() && left > 0; ++i) {
        int& devices = plan.grants[i].devices.of[0];
        if (devices == 0 || devices == limit(*input.jobs[i])) continue;
        ++devices;
        --left;
        grown = true;
      }
    }
    return plan;
  }

 private:
  // A job of application "lazy" never gets more than 2 devices.
  static int limit(const JobState& job) {
    return job.spec.application == "lazy" ? std::min(2, job.spec.max_devices)
                                          : job.spec.max_devices;
  }
};

class Tenants : public testing::Test {
 protected:
  void start(std::string_view cluster, TenantRules rules = {}, Seconds turn_s = 100) {
    cluster_ = *Cluster::parse(cluster);
    auto policy = std::make_unique<TenantPolicy>(
        [](const std::string&) { return std::make_unique<FillPolicy>(); }, std::move(rules),
        turn_s);
    policy_ = policy.get();
    info_.name = "fill";
    scheduler_ = std::make_unique<Scheduler>(cluster_, info_, std::move(policy), clock_, executor_);
  }
  JobId submit(const std::string& tenant, int low, int high, const std::string& application = "") {
    JobSpec spec;
    spec.id = JobId(next_++);
    spec.name = tenant + std::to_string(spec.id.value);
    spec.tenant = tenant;
    spec.application = application;
    spec.min_devices = low;
    spec.max_devices = spec.requested_devices = high;
    spec.mode = low == high ? ElasticMode::kRigid : ElasticMode::kConsistent;
    const Status status = scheduler_->submit(spec, {});
    EXPECT_TRUE(status.ok()) << status.error().message;
    return spec.id;
  }
  void round() {
    const auto record = scheduler_->round();
    ASSERT_TRUE(record.ok()) << record.error().message;
    wake_ = record->wake_at_s;
  }
  int has(const std::string& tenant) const {
    int devices = 0;
    for (const JobState* job : scheduler_->jobs()) {
      if (job->spec.tenant == tenant) devices += job->allocation.devices();
    }
    return devices;
  }
  std::string reason(JobId job) const { return std::string(code(scheduler_->find(job)->reason)); }

  Cluster cluster_;
  PolicyInfo info_;
  FakeClock clock_;
  NoExecutor executor_;
  TenantPolicy* policy_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;
  std::optional<Seconds> wake_;
  std::int32_t next_ = 0;
};

TEST_F(Tenants, BorrowIdleDevicesAndGiveThemBack) {
  start("2x4");
  submit("red", 1, 16);
  round();
  EXPECT_EQ(has("red"), 8);  // alone: everything
  const JobId blue = submit("blue", 1, 16);
  round();
  EXPECT_EQ(has("red"), 4);  // half each
  EXPECT_EQ(has("blue"), 4);
  submit("green", 1, 1);
  round();
  EXPECT_EQ(has("green"), 1);  // wants one; the other 7 are 3.5 each
  EXPECT_EQ(has("red") + has("blue"), 7);
  EXPECT_GE(has("red"), 3);
  EXPECT_GE(has("blue"), 3);
  scheduler_->remove(blue);
  round();
  EXPECT_EQ(has("red"), 7);  // borrows what blue leaves
  EXPECT_EQ(has("green"), 1);
}

TEST_F(Tenants, WeightsAndQuotas) {
  start("3x4", {{"red", {3, 0}}, {"blue", {1, 0}}, {"grey", {100, 2}}});
  submit("red", 1, 16);
  submit("blue", 1, 16);
  round();
  EXPECT_EQ(has("red"), 9);  // 3 : 1
  EXPECT_EQ(has("blue"), 3);
  submit("grey", 1, 16);
  const JobId second = submit("grey", 2, 2);
  round();
  EXPECT_EQ(has("grey"), 2);  // its quota, regardless of its weight
  EXPECT_EQ(reason(second), "tenant-quota");
  EXPECT_EQ(has("red") + has("blue"), 10);  // 7.5 and 2.5
  policy_->set_rules({});
  round();
  EXPECT_EQ(has("red"), 4);  // equal weights, no quotas
  EXPECT_EQ(has("blue"), 4);
  EXPECT_EQ(has("grey"), 4);
}

TEST_F(Tenants, AQuotaHoldsForATenantAlone) {
  start("2x4", {{"red", {1, 3}}});
  submit("red", 1, 8);
  round();
  EXPECT_EQ(has("red"), 3);
}

TEST_F(Tenants, ManyJobsDoNotBuyALargerShare) {
  start("2x4");
  for (int i = 0; i < 10; ++i) submit("red", 1, 8);
  const JobId waiting{9};
  submit("blue", 1, 8);
  round();
  EXPECT_EQ(has("red"), 4);
  EXPECT_EQ(has("blue"), 4);
  EXPECT_EQ(reason(waiting), "tenant-share");
}

TEST_F(Tenants, WhatAPolicyLeavesIdleIsUsedByOthers) {
  start("2x4");
  submit("blue", 1, 8);
  submit("red", 1, 8, "lazy");  // its policy uses 2 of its 4 devices
  round();
  EXPECT_EQ(has("red"), 2);
  EXPECT_EQ(has("blue"), 4);  // was asked before red left devices idle
  round();
  EXPECT_EQ(has("red"), 2);
  EXPECT_EQ(has("blue"), 6);
  round();
  EXPECT_EQ(has("blue"), 6);
  submit("red", 2, 2);  // red wants them back
  round();
  EXPECT_EQ(has("red"), 4);
  EXPECT_EQ(has("blue"), 4);
}

TEST_F(Tenants, AWaitingJobGetsIdleDevicesInTheSameDecision) {
  start("1x8");
  submit("blue", 6, 6);         // its share is 4, so it leaves the share to red
  submit("red", 1, 8, "lazy");  // which uses 2
  round();
  EXPECT_EQ(has("red"), 2);
  EXPECT_EQ(has("blue"), 6);
}

TEST_F(Tenants, AJobLargerThanTheShareHasItsTurns) {
  start("1x4");  // shares: 2 and 2; a turn is worth 100 s of the job's 3 devices
  submit("red", 1, 4);
  const JobId big = submit("blue", 3, 3);
  round();
  EXPECT_EQ(has("red"), 4);
  EXPECT_EQ(has("blue"), 0);
  EXPECT_EQ(reason(big), "tenant-share");
  ASSERT_TRUE(wake_.has_value());
  EXPECT_NEAR(*wake_, 150, 1e-6);  // 2 devices owed x 150 s = 300
  clock_.now = 100;
  round();
  EXPECT_EQ(has("blue"), 0);
  EXPECT_NEAR(*wake_, 150, 1e-6);
  clock_.now = 150;
  round();
  EXPECT_EQ(has("blue"), 3);
  EXPECT_EQ(has("red"), 1);
  EXPECT_NEAR(*wake_, 450, 1e-6);  // pays 1 device back x 300 s
  clock_.now = 300;
  round();
  EXPECT_EQ(has("blue"), 3);
  clock_.now = 450;
  round();
  EXPECT_EQ(has("blue"), 0);
  EXPECT_EQ(has("red"), 4);
  EXPECT_NEAR(*wake_, 600, 1e-6);
}

TEST_F(Tenants, TwoJobsThatNeedEverythingTakeTurns) {
  start("1x4");
  submit("red", 4, 4);
  submit("blue", 4, 4);
  std::map<std::string, double> time;
  round();
  while (clock_.now < 4000) {
    EXPECT_EQ(has("red") + has("blue"), 4);
    ASSERT_TRUE(wake_.has_value());
    const Seconds until = std::min(4000.0, *wake_);
    time[has("red") == 4 ? "red" : "blue"] += until - clock_.now;
    clock_.now = until;
    round();
  }
  EXPECT_NEAR(time["red"], 2000, 201);  // half the time each, to within one turn
  EXPECT_NEAR(time["blue"], 2000, 201);
}

TEST_F(Tenants, AShareBelowOneDeviceIsServedInTurns) {
  start("1x2", {{"red", {1, 0}}, {"blue", {1, 0}}, {"green", {1, 0}}});
  for (const char* tenant : {"red", "blue", "green"}) submit(tenant, 1, 2);
  std::map<std::string, double> time;  // device-seconds
  round();
  while (clock_.now < 9000) {
    ASSERT_TRUE(wake_.has_value());
    const Seconds until = std::min(9000.0, *wake_);
    for (const char* tenant : {"red", "blue", "green"}) {
      time[tenant] += has(tenant) * (until - clock_.now);
    }
    clock_.now = until;
    round();
  }
  for (const char* tenant : {"red", "blue", "green"}) EXPECT_NEAR(time[tenant], 6000, 600);
}

// Two tenants to which as much is owed as can be, because a third one had the only device: they
// took it from each other at every decision, and no job of theirs ever ended.
TEST_F(Tenants, ATurnIsNotInterruptedByAnother) {
  start("1x1", {{"red", {2, 0}}, {"blue", {1, 0}}, {"green", {1, 0}}});
  const JobId first = submit("red", 1, 1);
  round();
  submit("blue", 1, 1);
  submit("green", 1, 1);
  std::string holder;
  int changes = 0;
  std::map<std::string, double> time;
  for (; clock_.now < 4000; clock_.now += 5) {
    if (clock_.now == 600) scheduler_->remove(first);
    round();
    for (const char* tenant : {"red", "blue", "green"}) {
      if (has(tenant) == 0) continue;
      changes += holder != tenant ? 1 : 0;
      holder = tenant;
      time[tenant] += 5;
    }
  }
  EXPECT_LE(changes, 30) << "of 800 decisions";
  EXPECT_NEAR(time["blue"], time["green"], 400);
}

TEST_F(Tenants, KeepTheirNodes) {
  start("2x4");
  const JobId red = submit("red", 1, 4);
  const JobId blue = submit("blue", 1, 4);
  round();
  const auto shares = [&](JobId job) { return scheduler_->find(job)->allocation.shares; };
  const auto red_shares = shares(red);
  const auto blue_shares = shares(blue);
  EXPECT_EQ(red_shares.size(), 1U);
  EXPECT_EQ(blue_shares.size(), 1U);
  for (int i = 0; i < 3; ++i) {
    submit(i % 2 == 0 ? "red" : "blue", 1, 4);
    submit(i % 2 == 0 ? "blue" : "red", 1, 4);
    round();
  }
  EXPECT_EQ(shares(red).front().node, red_shares.front().node);
  EXPECT_EQ(shares(blue).front().node, blue_shares.front().node);
}

}  // namespace
}  // namespace rubato
