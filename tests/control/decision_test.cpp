// What holds however long a policy takes: an applied plan never gives a device twice, never touches
// a job that has ended, and never breaks a pin or a quota that was accepted before it was applied.
// Random schedules with a policy that decides in another thread, while jobs come, end, are paused,
// resumed, pinned and measured, devices are reserved, tenants change and the daemon restarts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "control/decision_thread.h"
#include "control/gate_policy.h"
#include "control/live_scheduler.h"
#include "control/pins.h"

namespace rubato::control {
namespace {

constexpr int kSeeds = 300;
constexpr int kSteps = 150;
const std::vector<std::string> kAskedPolicies = {"rubato", "fifo", "tiresias", "elastic-dp",
                                                 "sia",    "srtf", "optimus",  "afs"};

struct DecisionCounts {
  int applied = 0;
  int dropped = 0;
  int left_out = 0;
  int bridged = 0;
  int of_another_scheduler = 0;
};

// The daemon without processes and disk: the same calls in an order that a seed decides.
class DecisionWorld {
 public:
  DecisionWorld(std::uint64_t seed, DecisionCounts& counts)
      : random_(seed), counts_(counts), thread_([this] { answered_ = true; }) {
    machine_.devices = random_.between(1, 8);
    state_.policy = kAskedPolicies[seed % kAskedPolicies.size()];
    for (const char* name : {"red", "blue"}) {
      state_.tenants[name] = {.name = name, .quota = random_.between(0, machine_.devices)};
    }
    rebuild();
  }
  ~DecisionWorld() { gate_.open(); }

  void step() {
    now_ += random_.uniform() * 20;
    switch (random_.below(14)) {
      case 0:
      case 1:
      case 2:
        return submit();
      case 3:
        return end();
      case 4:
        return pause_or_resume();
      case 5:
        return pin();
      case 6:
        return change();
      case 7:
        return measure();
      case 8:
        return reserve();
      case 9:
        if (random_.chance(0.2)) change_tenant();
        return;
      case 10:
        if (asked_) bridge();
        return;
      default:
        if (!asked_) return ask();
        if (random_.chance(0.5)) let_decide();
    }
  }
  void finish() {
    if (asked_) let_decide();
  }

 private:
  JobRecord* some(const std::function<bool(const JobRecord&)>& suitable) {
    std::vector<JobRecord*> found;
    for (auto& [number, job] : state_.jobs) {
      if (!ended(job.phase) && suitable(job)) found.push_back(&job);
    }
    if (found.empty()) return nullptr;
    return found[random_.below(static_cast<std::uint32_t>(found.size()))];
  }
  static bool is_active(const JobRecord& job) { return job.phase != Phase::kPaused; }

  void submit() {
    JobRecord job;
    job.number = state_.next_job++;
    job.tenant = random_.chance(0.5) ? "red" : "blue";
    job.submitted_at = now_;
    job.document.run = {random_.chance(0.5) ? "./train" : "./other"};
    job.document.mode = random_.chance(0.3) ? ElasticMode::kRigid : ElasticMode::kConsistent;
    job.document.min_devices = random_.between(1, machine_.devices);
    job.document.max_devices = job.document.mode == ElasticMode::kRigid
                                   ? job.document.min_devices
                                   : random_.between(job.document.min_devices, machine_.devices);
    job.document.priority = random_.between(0, 2);
    ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    state_.jobs[job.number] = job;
  }
  void end() {
    JobRecord* job = some([](const JobRecord&) { return true; });
    if (job == nullptr) return;
    job->phase = Phase::kFinished;
    job->granted = 0;
    scheduler_->remove(job->number);
  }
  void pause_or_resume() {
    JobRecord* job = some([](const JobRecord&) { return true; });
    if (job == nullptr) return;
    if (job->phase == Phase::kPaused) {
      job->phase = Phase::kQueued;
      ASSERT_TRUE(scheduler_->add(*job, Profile()).ok());
      return;
    }
    job->phase = Phase::kPaused;
    job->granted = 0;
    scheduler_->remove(job->number);
  }
  void pin() {
    JobRecord* job = some(is_active);
    if (job == nullptr) return;
    const int devices = random_.between(0, machine_.devices);
    if (!check_pin(*job, devices, state_, machine_, "").ok()) return;
    job->scale = devices;
    ASSERT_TRUE(scheduler_->refresh(*job).ok());
  }
  void change() {
    JobRecord* job = some(is_active);
    if (job == nullptr) return;
    if (random_.chance(0.5)) {
      job->document.priority = random_.between(0, 2);
    } else {
      job->max_useful = random_.between(0, machine_.devices);
    }
    ASSERT_TRUE(scheduler_->refresh(*job).ok());
  }
  // The decision in the other thread uses the model that this changes.
  void measure() {
    JobRecord* job = some([](const JobRecord& each) { return each.granted > 0; });
    if (job == nullptr) return;
    job->started_at = std::max(job->started_at, job->submitted_at);
    static_cast<void>(scheduler_->report(*job, {.step = random_.between(1, 900),
                                                .total_steps = 1000,
                                                .steps_per_epoch = 100,
                                                .batch = 8,
                                                .workers = job->granted,
                                                .logical_workers = job->document.max_devices,
                                                .step_s = 0.1 + random_.uniform()}));
  }
  void reserve() {
    state_.reservations.clear();
    const int devices = random_.chance(0.5) ? 0 : random_.between(1, machine_.devices);
    if (devices > 0) state_.reservations[1] = {.number = 1, .devices = devices};
    apply(scheduler_->set_reserved(devices));
  }
  void change_tenant() {
    state_.tenants["red"].quota = random_.between(0, machine_.devices);
    rebuild();
  }

  // Also what a restart does.
  void rebuild() {
    ++schedulers_;
    thread_.hurry();
    auto made = LiveScheduler::make(machine_,
                                    {.name = state_.policy,
                                     .settings = {},
                                     .tenants = state_.tenants,
                                     .around = gate_.around(false)},
                                    [this] { return now_; });
    ASSERT_TRUE(made.ok()) << made.error().message;
    scheduler_ = std::move(*made);
    for (const auto& [number, job] : state_.jobs) {
      if (ended(job.phase) || job.phase == Phase::kPaused) continue;
      ASSERT_TRUE(scheduler_->add(job, Profile()).ok());
    }
    apply(scheduler_->set_reserved(reserved()));
  }
  int reserved() const {
    return state_.reservations.empty() ? 0 : state_.reservations.at(1).devices;
  }

  void ask() {
    if (random_.chance(0.8)) gate_.close(1);
    asked_ = schedulers_;
    pins_asked_ = honourable_pins();
    thread_.start(scheduler_->ask(), 1e6);
  }
  void let_decide() {
    gate_.open();
    std::unique_ptr<DecisionAnswer> answer;
    while ((answer = thread_.take()) == nullptr) std::this_thread::yield();
    const int asked = *std::exchange(asked_, std::nullopt);
    if (asked != schedulers_) {
      ++counts_.of_another_scheduler;
      return;
    }
    std::vector<Action> actions;
    const Result<RoundRecord> record = scheduler_->accept(*answer, actions);
    ASSERT_TRUE(record.ok()) << record.error().message;
    counts_.left_out += record->left_out;
    if (!record->dropped.empty()) {
      ++counts_.dropped;
      EXPECT_TRUE(actions.empty());
      return;
    }
    ++counts_.applied;
    apply(actions);
    for (const JobNumber job : honourable_pins()) {
      if (pins_asked_.contains(job)) check_pinned(job);
    }
    for (const auto& [name, tenant] : state_.tenants) check_quota(tenant);
  }
  void bridge() {
    std::vector<Action> actions;
    const Result<RoundRecord> record = scheduler_->stopgap(actions);
    ASSERT_TRUE(record.ok()) << record.error().message;
    ++counts_.bridged;
    apply(actions);
    for (const JobNumber job : honourable_pins()) check_pinned(job);
    for (const auto& [name, tenant] : state_.tenants) check_quota(tenant);
  }

  void apply(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      JobRecord& job = state_.jobs.at(number_of(action.job));
      ASSERT_FALSE(ended(job.phase)) << job_name_of(job.number) << " has ended";
      ASSERT_NE(job.phase, Phase::kPaused) << job_name_of(job.number) << " is paused";
      EXPECT_EQ(action.before.devices(), job.granted) << job_name_of(job.number);
      job.granted = action.after.devices();
      job.batch = action.after.batch;
      if (action.reason == Reason::kRejected)
        job.phase = Phase::kFailed;
      else
        job.phase = job.granted > 0 ? Phase::kRunning : Phase::kQueued;
    }
    int granted = 0;
    for (const auto& [number, job] : state_.jobs) granted += job.granted;
    EXPECT_LE(granted, machine_.devices - reserved()) << "a device was given twice";
  }
  int held_by(const std::string& tenant) const {
    int held = 0;
    for (const auto& [number, job] : state_.jobs) held += job.tenant == tenant ? job.granted : 0;
    return held;
  }
  void check_quota(const Tenant& tenant) const {
    if (tenant.quota == 0) return;
    EXPECT_LE(held_by(tenant.name), tenant.quota) << tenant.name;
  }
  void check_pinned(JobNumber job) const {
    EXPECT_EQ(state_.jobs.at(job).granted, scheduler_->state(job)->spec.pinned_devices)
        << job_name_of(job) << " is pinned";
  }
  // The rule of sched/pinned_policy.h: in order of arrival, while devices and quotas last.
  std::set<JobNumber> honourable_pins() const {
    std::set<JobNumber> found;
    int left = scheduler_->usable();
    std::map<std::string, int> pinned;
    for (const JobState* job : scheduler_->jobs()) {
      const int devices = job->spec.pinned_devices;
      if (devices == 0 || devices > left) continue;
      const int quota = state_.tenants.at(job->spec.tenant).quota;
      if (quota > 0 && pinned[job->spec.tenant] + devices > quota) continue;
      pinned[job->spec.tenant] += devices;
      left -= devices;
      found.insert(number_of(job->spec.id));
    }
    return found;
  }

  Random random_;
  DecisionCounts& counts_;
  Gate gate_;
  Machine machine_{.type = "cpu", .devices = 4};
  State state_;
  double now_ = 1'000'000;
  int schedulers_ = 0;
  std::unique_ptr<LiveScheduler> scheduler_;
  std::optional<int> asked_;  // by which scheduler
  std::set<JobNumber> pins_asked_;
  std::atomic<bool> answered_{false};
  DecisionThread thread_;
};

TEST(Decisions, AnAppliedPlanBreaksNoPromise) {
  DecisionCounts counts;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    DecisionWorld world(seed, counts);
    for (int i = 0; i < kSteps && !::testing::Test::HasFailure(); ++i) world.step();
    if (::testing::Test::HasFailure()) break;
    world.finish();
  }
  fmt::print(
      "{} plans applied, {} dropped, {} jobs left out, {} of another scheduler; {} stopgaps\n",
      counts.applied, counts.dropped, counts.left_out, counts.of_another_scheduler, counts.bridged);
  EXPECT_GT(counts.applied, 0);
  EXPECT_GT(counts.dropped, 0);
  EXPECT_GT(counts.left_out, 0);
  EXPECT_GT(counts.of_another_scheduler, 0);
  EXPECT_GT(counts.bridged, 0);
}

}  // namespace
}  // namespace rubato::control
