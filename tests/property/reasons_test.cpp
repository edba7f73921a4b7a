// Reasons tell the truth: every policy, with pins and tenants, on random worlds. What a job is told
// after a decision is compared with what the decision did, as seen from outside of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>

#include "base/text.h"
#include "property/checks.h"
#include "property/random_world.h"
#include "sched/pinned_policy.h"
#include "sched/tenant_policy.h"

namespace rubato {
namespace {

constexpr std::uint64_t kReasonWorlds = 400;  // per policy

// What the scheduler knew before a decision.
struct Before {
  std::map<JobId, Allocation> allocations;
  DeviceCounts usable;
  Seconds now_s = 0;
};

// Notes what comes in and goes out.
class Witness final : public Policy {
 public:
  static inline Before before{};
  explicit Witness(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}
  Plan decide(const PolicyInput& input) override {
    before.allocations.clear();
    for (const JobState* job : input.jobs) before.allocations[job->spec.id] = job->allocation;
    before.usable = input.usable_by_type;
    before.now_s = input.now_s;
    return policy_->decide(input);
  }

 private:
  std::unique_ptr<Policy> policy_;
};

// As the daemon puts policies together.
std::unique_ptr<Policy> live_policy(const PolicyInfo& info, const RandomWorld& world,
                                    const TenantRules& rules) {
  auto tenants = std::make_unique<TenantPolicy>(
      [&info, settings = world.options.settings, seed = world.options.seed](const std::string&) {
        return std::move(*make_policy(info, settings, seed));
      },
      rules, 60);
  return std::make_unique<Witness>(std::make_unique<PinnedPolicy>(std::move(tenants), rules));
}

// A decision, from outside.
class Observed {
 public:
  Observed(const Scheduler& scheduler, const TenantRules& rules)
      : cluster_(scheduler.cluster()), rules_(rules), free_(Witness::before.usable) {
    for (const JobState* job : scheduler.jobs()) {
      const DeviceCounts after = job->allocation.counts(cluster_);
      const DeviceCounts had = counts_before(*job);
      bool gained = false;
      for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
        free_.of[type] -= after.of[type];
        gained = gained || after.of[type] > had.of[type];
      }
      gained_ += gained ? 1 : 0;
      held_ += after.total();
      held_by_tenant_[job->spec.tenant] += after.total();
      waiting_ += after.total() == 0 ? 1 : 0;
    }
  }

  static int before(const JobState& job) {
    const auto found = Witness::before.allocations.find(job.spec.id);
    return found == Witness::before.allocations.end() ? 0 : found->second.devices();
  }
  DeviceCounts counts_before(const JobState& job) const {
    const auto found = Witness::before.allocations.find(job.spec.id);
    return found == Witness::before.allocations.end() ? DeviceCounts{}
                                                      : found->second.counts(cluster_);
  }
  int for_job(const JobSpec& spec, const DeviceCounts& counts) const {
    int usable = 0;
    for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
      if (!spec.allows(DeviceTypeId(type))) continue;
      usable = spec.mixes_types ? usable + counts.of[type] : std::max(usable, counts.of[type]);
    }
    return usable;
  }

  void check(const JobState& job) const {
    const JobSpec& spec = job.spec;
    const int was = before(job);
    const int is = job.allocation.devices();
    const int needs = spec.mode == ElasticMode::kRigid ? spec.requested_devices : spec.min_devices;
    const int free = for_job(spec, free_);
    const int usable = for_job(spec, Witness::before.usable);
    const std::string what = fmt::format("{} {} -> {}, {} free, {} usable: {}", spec.name, was, is,
                                         free, usable, code(job.reason));
    if (is == 0) {
      ASSERT_EQ(job.facts.needs, needs) << what;
      ASSERT_EQ(job.facts.free, free) << what;
      ASSERT_EQ(job.facts.usable, usable) << what;
    } else if (job.changed_at_s == Witness::before.now_s && was != is) {
      ASSERT_EQ(job.facts.before, was) << what;
      ASSERT_EQ(job.facts.after, is) << what;
    } else {
      return;  // told before
    }
    switch (job.reason) {
      case Reason::kStarted:
        ASSERT_TRUE(was == 0 && is > 0) << what;
        break;
      case Reason::kGrown:
        ASSERT_TRUE(was > 0 && is > was) << what;
        break;
      case Reason::kShrunk:
        ASSERT_TRUE(is > 0 && is < was && gained_ > 0) << what;
        ASSERT_GT(job.facts.to_others, 0) << what;
        break;
      case Reason::kFewer:
        ASSERT_TRUE(is > 0 && is < was) << what;
        ASSERT_GE(free_.total(), was - is) << what << ": somebody has them";
        break;
      case Reason::kPreempted:
        ASSERT_TRUE(is == 0 && was > 0 && gained_ > 0) << what;
        break;
      case Reason::kPinned:
        ASSERT_EQ(is, spec.pinned_devices) << what;
        break;
      case Reason::kWaitsForDevices:
        ASSERT_TRUE(is == 0 && free < needs) << what;
        break;
      case Reason::kTooFewUsable:
        ASSERT_TRUE(is == 0 && usable < needs) << what;
        break;
      case Reason::kWaitsBehind:
        ASSERT_TRUE(is == 0 && free >= needs && waiting_ > 1) << what;
        break;
      case Reason::kHeldBack:
        ASSERT_TRUE(is == 0 && free >= needs) << what;
        break;
      case Reason::kNotWorthwhile:
        ASSERT_TRUE(is == 0 && free < needs && held_ > 0) << what;
        break;
      case Reason::kTenantShare:
        ASSERT_TRUE(is == 0 && free < needs && held_ > held_by_tenant_.at(spec.tenant)) << what;
        break;
      case Reason::kTenantQuota: {
        const int quota = rules_.find(spec.tenant)->second.quota;
        ASSERT_GT(quota, 0) << what;
        ASSERT_GT(held_by_tenant_.at(spec.tenant) + needs, quota) << what;
        break;
      }
      case Reason::kCutToSize:
        ASSERT_TRUE(spec.power_of_two_sizes && is > 0) << what;
        break;
      default:
        FAIL() << what << " cannot be";  // nothing was measured, no range or size changed
    }
  }

 private:
  const Cluster& cluster_;
  const TenantRules& rules_;
  DeviceCounts free_;
  std::map<std::string, int> held_by_tenant_;
  int held_ = 0;
  int waiting_ = 0;
  int gained_ = 0;  // jobs that have more of some type than before
};

// Pins are honoured in order of arrival, as far as devices and quotas allow.
void check_pins(const Scheduler& scheduler, const TenantRules& rules) {
  if (scheduler.cluster().type_count() > 1) return;  // which types are taken first matters there
  int left = Witness::before.usable.total();
  std::map<std::string, int> of_tenant;
  for (const JobState* job : scheduler.jobs()) {
    const int pinned = job->spec.pinned_devices;
    if (pinned == 0) continue;
    const int quota = rules.find(job->spec.tenant)->second.quota;
    const bool fits =
        pinned <= left && (quota == 0 || of_tenant[job->spec.tenant] + pinned <= quota);
    if (!fits) {
      ASSERT_LE(job->allocation.devices(), pinned) << job->spec.name;
      continue;
    }
    ASSERT_EQ(job->allocation.devices(), pinned) << job->spec.name;
    left -= pinned;
    of_tenant[job->spec.tenant] += pinned;
  }
}

struct PinnedWorld {
  RandomWorld world;
  TenantRules rules{};
};

PinnedWorld world_with_pins(std::uint64_t seed, const PolicyInfo& info) {
  PinnedWorld made{random_world(seed)};
  auto& [world, rules] = made;
  Random random(seed + 9'000'000);
  constexpr std::array kNames{"red", "green", "blue"};
  const int tenants = random.between(1, 3);
  for (WorkloadJob& job : world.workload.jobs) {
    JobSpec& spec = job.spec;
    spec.tenant = kNames[random.below(static_cast<std::uint32_t>(tenants))];
    const bool rigid = spec.mode == ElasticMode::kRigid;
    if (random.chance(0.3)) {
      spec.pinned_devices =
          rigid ? spec.requested_devices : random.between(spec.min_devices, spec.max_devices);
      if (spec.power_of_two_sizes) {
        spec.pinned_devices =
            static_cast<int>(std::bit_floor(static_cast<unsigned>(spec.pinned_devices)));
      }
    }
    TenantRule& rule = rules[spec.tenant];
    rule.quota = std::max(rule.quota, spec.max_devices);
  }
  for (auto& [name, rule] : rules) {
    rule.weight = random.chance(0.5) ? 1 : 0.1 + 5 * random.uniform();
    rule.quota = random.chance(0.4) ? rule.quota + random.between(0, 4) : 0;
  }
  world.options.settings = quick_settings(info);
  return made;
}

class ReasonsOfEveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  const PolicyInfo& info() const { return **find_policy(GetParam()); }
};

TEST_P(ReasonsOfEveryPolicy, AreTrueAndPinsAreHonoured) {
  const char* one = std::getenv("RUBATO_SEED");
  const std::uint64_t first =
      one == nullptr ? 1 : static_cast<std::uint64_t>(parse_int(one).value_or(1));
  std::uint64_t count = one != nullptr ? 1 : kReasonWorlds;
  if (info().name == "mip" && one == nullptr) count = kReasonWorlds / 10;

  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("repeat with RUBATO_SEED={}", seed));
    PinnedWorld made = world_with_pins(seed, info());
    RandomWorld& world = made.world;
    world.options.on_round = [&](const Scheduler& scheduler) {
      if (HasFatalFailure()) return;
      check_allocations(scheduler, world);
      check_pins(scheduler, made.rules);
      const Observed observed(scheduler, made.rules);
      for (const JobState* job : scheduler.jobs()) {
        if (!HasFatalFailure()) observed.check(*job);
      }
    };
    const auto result = simulate(world.cluster, world.workload, info(),
                                 live_policy(info(), world, made.rules), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, ReasonsOfEveryPolicy, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const PolicyInfo& each : policy_table()) names.push_back(each.name);
                           return names;
                         }()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rubato
