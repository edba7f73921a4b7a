// Every policy under TenantPolicy on random worlds with random tenants.
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
#include "sched/tenant_policy.h"
#include "sim/report.h"

namespace rubato {
namespace {

constexpr std::uint64_t kTenantWorlds = 1000;  // per policy

// As in the live system: tenants around priorities around the policy.
std::unique_ptr<Policy> for_tenants(const PolicyInfo& info, const SimOptions& options,
                                    const TenantRules& rules, Seconds turn_s) {
  return std::make_unique<TenantPolicy>(
      [&info, settings = options.settings, seed = options.seed](const std::string&) {
        return std::move(*make_policy(info, settings, seed));
      },
      rules, turn_s);
}

struct TenantWorld {
  RandomWorld world;
  int tenants = 1;
  TenantRules rules{};
  Seconds turn_s = 60;
};

TenantWorld tenant_world(std::uint64_t seed, const PolicyInfo& info) {
  TenantWorld made{random_world(seed)};
  Random random(seed + 7'000'000);
  made.tenants = random.between(1, 4);
  constexpr std::array kNames{"red", "green", "blue", "grey"};
  std::map<std::string, int> needed;  // devices that the tenant's quota must allow
  for (WorkloadJob& job : made.world.workload.jobs) {
    job.spec.tenant = kNames[random.below(static_cast<std::uint32_t>(made.tenants))];
    // A batch may need more devices than the smallest size, because a device holds only so many
    // samples.
    const std::int64_t per_device = job.application ? job.spec.batch.max_local : 0;
    const auto for_batch = static_cast<int>(
        per_device == 0 ? 1 : (job.spec.requested_batch + per_device - 1) / per_device);
    const int sized = job.spec.power_of_two_sizes
                          ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(for_batch)))
                          : for_batch;
    int& most = needed[job.spec.tenant];
    most = std::max({most, job.spec.requested_devices, sized});
  }
  for (const auto& [name, devices] : needed) {
    TenantRule& rule = made.rules[name];
    rule.weight = random.chance(0.5) ? 1 : 0.1 + 5 * random.uniform();
    if (random.chance(0.4)) rule.quota = devices + random.between(0, 6);
  }
  made.turn_s = random.chance(0.5) ? 60 : 300;  // much longer than a stop costs
  made.world.options.settings = quick_settings(info);
  return made;
}

std::vector<std::uint64_t> tenant_seeds(const PolicyInfo& info) {
  if (const char* one = std::getenv("RUBATO_SEED")) {
    return {static_cast<std::uint64_t>(parse_int(one).value_or(1))};
  }
  std::vector<std::uint64_t> all(info.name == "mip" ? kTenantWorlds / 10 : kTenantWorlds);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i + 1;
  return all;
}

class EveryPolicyWithTenants : public testing::TestWithParam<std::string> {
 protected:
  const PolicyInfo& info() const { return **find_policy(GetParam()); }
  std::string repeat(std::uint64_t seed) const {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return fmt::format(
        "seed {}; repeat with: RUBATO_SEED={} build/bin/property_tests --gtest_filter={}.{}", seed,
        seed, test->test_suite_name(), test->name());
  }
};

TEST_P(EveryPolicyWithTenants, KeepsTheRulesAndTheQuotasAndEveryJobEnds) {
  for (const std::uint64_t seed : tenant_seeds(info())) {
    SCOPED_TRACE(repeat(seed));
    TenantWorld made = tenant_world(seed, info());
    RandomWorld& world = made.world;
    world.options.on_round = [&](const Scheduler& scheduler) {
      check_allocations(scheduler, world);
      std::map<std::string, int> held;
      for (const JobState* job : scheduler.jobs()) {
        held[job->spec.tenant] += job->allocation.devices();
      }
      for (const auto& [name, devices] : held) {
        const int quota = made.rules[name].quota;
        ASSERT_TRUE(quota == 0 || devices <= quota) << name << " holds " << devices;
      }
    };
    const auto result =
        simulate(world.cluster, world.workload, info(),
                 for_tenants(info(), world.options, made.rules, made.turn_s), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (const JobResult& job : result->jobs) ASSERT_TRUE(job.finished()) << job.name;
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryPolicyWithTenants, OneTenantPassesThrough) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(repeat(seed));
    RandomWorld world = random_world(seed);
    world.options.settings = quick_settings(info());
    std::array<std::string, 2> bytes;
    for (const bool tenants : {false, true}) {
      auto policy = tenants ? for_tenants(info(), world.options, {}, 60)
                            : std::move(*make_policy(info(), world.options.settings, seed));
      auto result =
          simulate(world.cluster, world.workload, info(), std::move(policy), world.options);
      ASSERT_TRUE(result.ok()) << result.error().message;
      result->summary.wall_s = 0;
      result->summary.decisions = {};
      const std::vector<SimResult> runs{*result};
      bytes[tenants ? 1 : 0] = jobs_csv(runs) + timeline_csv(runs);
    }
    ASSERT_EQ(bytes[0], bytes[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyWithTenants, testing::ValuesIn([] {
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
