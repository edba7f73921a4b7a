// A plan that comes later: what is applied of it when jobs and devices have changed meanwhile, and
// what is done while a policy is late.
#include "sched/question.h"

#include <gtest/gtest.h>

#include <map>

#include "sched/gang.h"
#include "sched/pinned_policy.h"
#include "sched/stopgap_policy.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

class NoProgress final : public ObservedProgress {
 public:
  double epochs_done(Seconds) const override { return 0; }
  double samples_done(Seconds) const override { return 0; }
};

// Gives every job what the test says.
class ToldPolicy final : public Policy {
 public:
  explicit ToldPolicy(std::map<std::int32_t, int>& sizes) : sizes_(sizes) {}
  Plan decide(const PolicyInput& input) override {
    Plan plan = empty_plan(input);
    for (Grant& grant : plan.grants) grant.devices[kType] = sizes_[grant.job.value];
    return plan;
  }

 private:
  std::map<std::int32_t, int>& sizes_;
};

class QuestionTest : public ::testing::Test, public Executor {
 protected:
  void SetUp() override {
    scheduler_ = std::make_unique<Scheduler>(cluster_, **find_policy("fifo"),
                                             std::make_unique<ToldPolicy>(sizes_), clock_, *this);
  }
  void apply(std::span<const Action> actions) override {
    for (const Action& action : actions) ++changed_[action.job.value];
  }
  static JobSpec spec(std::int32_t id, int low, int high) {
    JobSpec job;
    job.id = JobId(id);
    job.name = "j" + std::to_string(id);
    job.min_devices = job.requested_devices = low;
    job.max_devices = high;
    return job;
  }
  void submit(const JobSpec& job) {
    ASSERT_TRUE(scheduler_->submit(job, {.progress = &progress_}).ok());
  }
  void update(const JobSpec& job) {
    ASSERT_TRUE(scheduler_->update(job, {.progress = &progress_}).ok());
  }
  // The whole decision; `meanwhile` happens before its plan is accepted.
  RoundRecord decide(std::map<std::int32_t, int> sizes, const std::function<void()>& meanwhile) {
    sizes_ = std::move(sizes);
    const Question question = scheduler_->ask();
    const Plan plan = scheduler_->policy()->decide(question.input());
    meanwhile();
    changed_.clear();
    const Result<RoundRecord> record = scheduler_->accept(question, plan, {});
    EXPECT_TRUE(record.ok()) << record.error().message;
    return record.ok() ? *record : RoundRecord{};
  }
  int devices(std::int32_t id) const {
    const JobState* job = scheduler_->find(JobId(id));
    return job == nullptr ? -1 : job->allocation.devices();
  }

  const Cluster cluster_ = *Cluster::parse("1x4");
  FakeClock clock_;
  NoProgress progress_;
  std::map<std::int32_t, int> sizes_;
  std::map<std::int32_t, int> changed_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(QuestionTest, WithoutChangesAPlanIsAppliedAsItIs) {
  submit(spec(1, 1, 4));
  submit(spec(2, 1, 4));
  const RoundRecord record = decide({{1, 3}, {2, 1}}, [] {});
  EXPECT_EQ(record.dropped, "");
  EXPECT_EQ(record.left_out, 0);
  EXPECT_EQ(record.actions, 2);
  EXPECT_EQ(devices(1), 3);
  EXPECT_EQ(devices(2), 1);
}

TEST_F(QuestionTest, AJobThatArrivesWaitsForTheNextDecision) {
  submit(spec(1, 1, 4));
  const RoundRecord record = decide({{1, 2}}, [&] { submit(spec(2, 1, 4)); });
  EXPECT_EQ(record.dropped, "");
  EXPECT_EQ(devices(1), 2);
  EXPECT_EQ(devices(2), 0);
}

TEST_F(QuestionTest, AJobThatHasEndedIsNotTouched) {
  submit(spec(1, 1, 4));
  submit(spec(2, 1, 4));
  decide({{1, 2}, {2, 2}}, [] {});
  // It was to give up a device.
  const RoundRecord record = decide({{1, 1}, {2, 3}}, [&] { scheduler_->remove(JobId(1)); });
  EXPECT_EQ(record.dropped, "");
  EXPECT_EQ(devices(2), 3);
  EXPECT_FALSE(changed_.contains(1));
}

TEST_F(QuestionTest, NobodyGivesUpDevicesForAJobThatHasEnded) {
  submit(spec(1, 1, 4));
  submit(spec(2, 1, 4));
  decide({{1, 2}, {2, 2}}, [] {});
  const RoundRecord record = decide({{1, 1}, {2, 3}}, [&] { scheduler_->remove(JobId(2)); });
  EXPECT_EQ(record.dropped, "j2, which was to get devices, has ended");
  EXPECT_EQ(record.actions, 0);
  EXPECT_EQ(devices(1), 2);
}

TEST_F(QuestionTest, AJobThatChangedKeepsWhatItHas) {
  submit(spec(1, 1, 4));
  submit(spec(2, 1, 4));
  decide({{1, 1}, {2, 1}}, [] {});
  const RoundRecord record = decide({{1, 2}, {2, 2}}, [&] { update(spec(1, 1, 1)); });
  EXPECT_EQ(record.dropped, "");
  EXPECT_EQ(record.left_out, 1);
  EXPECT_EQ(devices(1), 1);
  EXPECT_EQ(devices(2), 2);
  // One that would keep more than the plan gives it is in the way of others.
  const RoundRecord other = decide({{1, 0}, {2, 4}}, [&] { update(spec(1, 1, 2)); });
  EXPECT_NE(other.dropped, "");
  EXPECT_EQ(devices(2), 2);
}

TEST_F(QuestionTest, PinsPrioritiesAndLostDevicesDropAPlan) {
  submit(spec(1, 1, 4));
  submit(spec(2, 1, 4));
  decide({{1, 1}, {2, 1}}, [] {});
  JobSpec job = spec(1, 1, 4);
  job.pinned_devices = 3;
  EXPECT_EQ(decide({{1, 1}, {2, 3}}, [&] { update(job); }).dropped, "the pin of j1 changed");
  job.priority = 7;
  EXPECT_EQ(decide({{1, 1}, {2, 3}}, [&] { update(job); }).dropped, "the priority of j1 changed");
  EXPECT_EQ(decide({{1, 1}, {2, 3}}, [&] { scheduler_->set_reserved(kType, 1); }).dropped,
            "devices are gone");
  EXPECT_EQ(devices(1), 1);
  EXPECT_EQ(devices(2), 1);
}

TEST_F(QuestionTest, TheStopgapKeepsJobsAndStartsThoseThatWaitInOrder) {
  submit(spec(1, 1, 4));
  decide({{1, 1}}, [] {});
  submit(spec(2, 1, 4));
  JobSpec urgent = spec(3, 2, 2);
  urgent.priority = 1;
  submit(urgent);
  submit(spec(4, 2, 2));
  submit(spec(5, 1, 1));
  StopgapPolicy stopgap({});
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(1), 1);
  EXPECT_EQ(devices(2), 1);
  EXPECT_EQ(devices(3), 2);
  EXPECT_EQ(devices(4), 0);
  EXPECT_EQ(devices(5), 0);
  scheduler_->remove(JobId(2));
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(4), 0);
  EXPECT_EQ(devices(5), 0) << "nobody overtakes";
  scheduler_->remove(JobId(3));
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(4), 2);
  EXPECT_EQ(devices(5), 1);
}

TEST_F(QuestionTest, TheStopgapKnowsQuotasPinsAndRanges) {
  JobSpec job = spec(1, 1, 4);
  job.tenant = "red";
  submit(job);
  decide({{1, 2}}, [] {});
  JobSpec red = spec(2, 1, 1);
  red.tenant = "red";
  submit(red);
  submit(spec(3, 1, 1));
  const TenantRules rules{{"red", {.weight = 1, .quota = 2}}};
  PinnedPolicy stopgap(std::make_unique<StopgapPolicy>(rules), rules);
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(2), 0);
  EXPECT_EQ(scheduler_->find(JobId(2))->reason, Reason::kTenantQuota);
  EXPECT_EQ(devices(3), 1) << "another tenant's quota is not in its way";
  // Its range became smaller.
  job.max_devices = 1;
  update(job);
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(1), 1);
  EXPECT_EQ(devices(2), 1);
  JobSpec pinned = spec(4, 1, 4);
  pinned.pinned_devices = 2;
  submit(pinned);
  ASSERT_TRUE(scheduler_->round_with(stopgap).ok());
  EXPECT_EQ(devices(4), 2) << "pins come first";
}

}  // namespace
}  // namespace rubato
