// Invariants of every policy on random small worlds. A failure prints the seed and the command to
// repeat it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>

#include "base/text.h"
#include "property/checks.h"
#include "random_world.h"
#include "sched/scheduler.h"
#include "sched/validate.h"
#include "sim/report.h"
#include "sim/run_matrix.h"

namespace rubato {
namespace {

constexpr std::uint64_t kWorlds = 2000;  // per policy

// Policies that can turn jobs away. A job that was turned away has ended.
bool may_drop(const PolicyInfo& info) {
  return info.name == "elastic-dp" || info.name == "fixed-batch";
}

std::vector<std::uint64_t> seeds(const PolicyInfo& info) {
  if (const char* one = std::getenv("RUBATO_SEED")) {
    return {static_cast<std::uint64_t>(parse_int(one).value_or(1))};
  }
  std::vector<std::uint64_t> all;
  // Solving a mixed-integer program for every decision takes long.
  const std::uint64_t worlds = info.name == "mip" ? kWorlds / 10 : kWorlds;
  for (std::uint64_t seed = 1; seed <= worlds; ++seed) all.push_back(seed);
  return all;
}

class EveryPolicy : public testing::TestWithParam<std::string> {
 protected:
  const PolicyInfo& info() const { return **find_policy(GetParam()); }

  std::string repeat(std::uint64_t seed) const {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return fmt::format(
        "seed {}; repeat with: RUBATO_SEED={} build/bin/property_tests --gtest_filter={}.{}", seed,
        seed, test->test_suite_name(), test->name());
  }

  Result<SimResult> run(RandomWorld& world) const {
    world.options.settings = quick_settings(info());
    if (may_drop(info()) && world.options.seed % 2 == 1) {
      world.options.settings["admission"] = "drop";
    }
    if (info().name == "fixed-batch") {
      constexpr std::array kBatches{"min", "max", "random"};
      world.options.settings["batch"] = kBatches[world.options.seed % kBatches.size()];
    }
    return simulate(world.cluster, world.workload, info(), world.options);
  }
};

TEST_P(EveryPolicy, GivesNoDeviceTwiceAndRespectsRanges) {
  for (const std::uint64_t seed : seeds(info())) {
    SCOPED_TRACE(repeat(seed));
    RandomWorld world = random_world(seed);
    long rounds = 0;
    world.options.on_round = [&](const Scheduler& scheduler) {
      ++rounds;
      check_allocations(scheduler, world);
    };
    const auto result = run(world);
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_GT(rounds, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryPolicy, EveryJobEndsAndDoesExactlyTheWorkAskedFor) {
  for (const std::uint64_t seed : seeds(info())) {
    SCOPED_TRACE(repeat(seed));
    RandomWorld world = random_world(seed);
    const auto result = run(world);
    ASSERT_TRUE(result.ok()) << result.error().message;
    int dropped = 0;
    for (std::size_t i = 0; i < result->jobs.size(); ++i) {
      const JobResult& job = result->jobs[i];
      const WorkloadJob& asked = world.workload.jobs[i];
      if (job.dropped) {
        ASSERT_TRUE(may_drop(info())) << job.name;
        ASSERT_FALSE(job.finished()) << job.name;
        ASSERT_LT(job.start_s, 0) << job.name << " was turned away although it ran";
        ASSERT_EQ(job.device_s, 0) << job.name;
        ++dropped;
        continue;
      }
      ASSERT_TRUE(job.finished()) << job.name;
      ASSERT_GE(job.start_s, job.submit_s) << job.name;
      ASSERT_GT(job.finish_s, job.start_s) << job.name;
      ASSERT_GE(job.queue_s, -1e-6) << job.name;
      ASSERT_GE(job.lost_device_s, 0) << job.name;
      if (asked.application) continue;
      // With perfect scaling, device-seconds of training equal the work, whatever sizes the job
      // had.
      const double work = asked.duration_s * asked.spec.requested_devices;
      ASSERT_NEAR((job.device_s - job.lost_device_s) / work, 1.0, 1e-6) << job.name;
    }
    const SimSummary& summary = result->summary;
    ASSERT_EQ(summary.jobs_dropped, dropped);
    ASSERT_EQ(summary.jobs_finished + dropped, static_cast<int>(world.workload.jobs.size()));
    ASSERT_LE(summary.allocated_ratio, 1 + 1e-9);
    ASSERT_LE(summary.useful_ratio, summary.allocated_ratio + 1e-9);
    ASSERT_LE(summary.serving_wait_max_s, world.options.give_back_s + 1e-9);
  }
}

TEST_P(EveryPolicy, RecordsTheDevicesThatJobsHeld) {
  for (const std::uint64_t seed : seeds(info())) {
    SCOPED_TRACE(repeat(seed));
    RandomWorld world = random_world(seed);
    world.options.record_devices = true;
    const auto result = run(world);
    ASSERT_TRUE(result.ok()) << result.error().message;
    std::vector<DeviceChange> last(result->jobs.size());
    std::vector<double> device_s(result->jobs.size(), 0.0);
    for (const DeviceChange& change : result->changes) {
      DeviceChange& held = last[change.job];
      ASSERT_GE(change.time_s, held.time_s);
      ASSERT_NE(change.shares, held.shares) << "nothing changed at " << change.time_s;
      for (const NodeShare& share : held.shares) {
        device_s[change.job] += share.devices * (change.time_s - held.time_s);
      }
      held = change;
    }
    for (std::size_t i = 0; i < last.size(); ++i) {
      ASSERT_TRUE(last[i].shares.empty()) << "held after the end";
      ASSERT_NEAR(device_s[i], result->jobs[i].device_s, 1e-6 * (1 + device_s[i]));
    }
    // The timeline too, also where devices start to compute without a decision: after a pause.
    double allocated_s = 0, useful_s = 0;
    const std::vector<TimelinePoint>& timeline = result->timeline;
    for (std::size_t i = 0; i + 1 < timeline.size(); ++i) {
      allocated_s += timeline[i].allocated * (timeline[i + 1].time_s - timeline[i].time_s);
      useful_s += timeline[i].useful * (timeline[i + 1].time_s - timeline[i].time_s);
    }
    ASSERT_NEAR(useful_s * result->summary.allocated_ratio,
                allocated_s * result->summary.useful_ratio, 1e-6 * (1 + allocated_s));
  }
}

TEST_P(EveryPolicy, SameSeedGivesTheSameBytesOnAnyNumberOfThreads) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(repeat(seed));
    RandomWorld world = random_world(seed);
    const auto bytes = [&](int threads) {
      RunMatrix matrix;
      matrix.policies = {{&info(), quick_settings(info())}};
      matrix.workloads = {world.workload, world.workload};
      matrix.workloads[1].name = "again";
      matrix.quirks.resize(2);
      matrix.seeds = {seed, seed + 1};
      matrix.options = world.options;
      matrix.options.record_devices = true;
      matrix.threads = threads;
      auto runs = run_matrix(world.cluster, matrix, {});
      EXPECT_TRUE(runs.ok());
      for (SimResult& run : *runs) {
        run.summary.wall_s = 0;
        run.summary.decisions = {};
      }
      return jobs_csv(*runs) + timeline_csv(*runs) + devices_csv(*runs) + summary_json(*runs, {}) +
             report_document(*runs, {}).json;
    };
    const std::string once = bytes(1);
    ASSERT_EQ(once, bytes(1));
    ASSERT_EQ(once, bytes(4));
  }
}

// On another type, the bits of such a job would differ.
TEST(EasyScale, JobsThatMayNotMixTypesStayOnTheirs) {
  long checked = 0;
  for (const std::uint64_t seed : seeds(**find_policy("easyscale"))) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomWorld world = random_world(seed);
    if (world.cluster.type_count() < 2) continue;
    std::map<JobId, DeviceTypeId> first;
    world.options.on_round = [&](const Scheduler& scheduler) {
      for (const JobState* job : scheduler.jobs()) {
        const JobSpec& spec = job->spec;
        if (spec.logical_workers == 0 || spec.mixes_types || !job->running()) continue;
        const DeviceTypeId type = job->allocation.counts(world.cluster).single_type();
        EXPECT_EQ(first.emplace(spec.id, type).first->second, type) << spec.name;
        ++checked;
      }
    };
    const auto result =
        simulate(world.cluster, world.workload, **find_policy("easyscale"), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (HasFailure()) return;
  }
  if (std::getenv("RUBATO_SEED") == nullptr) {
    EXPECT_GT(checked, 100);
  }
}

// A job gets at most twice the devices on which it was measured, all of one type.
TEST(Sia, ExploresByDoubling) {
  long checked = 0;
  for (const std::uint64_t seed : seeds(**find_policy("sia"))) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomWorld world = random_world(seed);
    std::map<JobId, int> before;  // devices
    world.options.on_round = [&](const Scheduler& scheduler) {
      for (const JobState* job : scheduler.jobs()) {
        const int devices = job->allocation.devices();
        if (devices > std::max(before[job->spec.id], job->spec.min_devices) &&
            job->learned != nullptr && job->spec.mode != ElasticMode::kRigid) {
          ASSERT_LE(devices, 2 * job->learned->max_profiled_devices()) << job->spec.name;
          ++checked;
        }
        if (devices > 0) {
          ASSERT_TRUE(job->allocation.counts(world.cluster).single_type().valid());
        }
        before[job->spec.id] = devices;
      }
    };
    const auto result =
        simulate(world.cluster, world.workload, **find_policy("sia"), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (HasFatalFailure()) return;
  }
  if (std::getenv("RUBATO_SEED") == nullptr) {
    ASSERT_GT(checked, 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const PolicyInfo& each : policy_table()) names.push_back(each.name);
                           return names;
                         }()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// --- Planted errors

// A correct policy whose plan is damaged in a chosen way as soon as possible.
class Saboteur final : public Policy {
 public:
  static inline PlanFault planted = PlanFault::kWrongJob;
  static inline bool done = false;

  Saboteur() : honest_(std::move(*make_policy(**find_policy("fifo-backfill"), {}, 1))) {}

  Plan decide(const PolicyInput& input) override {
    Plan plan = honest_->decide(input);
    if (!plan.grants.empty() && damage(plan, input)) done = true;
    return plan;
  }

 private:
  static bool damage(Plan& plan, const PolicyInput& input) {
    for (Grant& each : plan.grants) each.nodes.reset();  // of jobs with several priorities
    Grant& grant = plan.grants.front();
    const JobSpec& spec = input.jobs.front()->spec;
    const DeviceTypeId type = grant.devices.single_type();
    switch (planted) {
      case PlanFault::kWrongJobCount:
        plan.grants.pop_back();
        return true;
      case PlanFault::kWrongJob:
        grant.job = JobId(12345);
        return true;
      case PlanFault::kNegativeDevices:
        grant.devices.of[0] = -1;
        return true;
      case PlanFault::kTypeNotAllowed:
        grant.devices.of[kMaxDeviceTypes - 1] = 1;
        return true;
      case PlanFault::kMixedTypes:
        if (input.cluster.type_count() < 2 || spec.mixes_types || !spec.allows(DeviceTypeId(0)) ||
            !spec.allows(DeviceTypeId(1))) {
          return false;
        }
        grant.devices.of[0] = grant.devices.of[1] = 1;
        return true;
      case PlanFault::kBelowMinimum:
        if (spec.mode == ElasticMode::kRigid || spec.min_devices < 2 || !type.valid()) return false;
        grant.devices[type] = spec.min_devices - 1;
        return true;
      case PlanFault::kAboveMaximum:
        if (spec.mode == ElasticMode::kRigid || !type.valid()) return false;
        grant.devices[type] = spec.max_devices + 1;
        return true;
      case PlanFault::kRigidResized:
        if (spec.mode != ElasticMode::kRigid || !type.valid()) return false;
        grant.devices[type] = spec.requested_devices + 1;
        return true;
      case PlanFault::kTooManyDevices: {
        // All jobs get their maximum.
        int total = 0;
        for (std::size_t i = 0; i < plan.grants.size(); ++i) {
          const JobSpec& each = input.jobs[i]->spec;
          if (each.mode == ElasticMode::kRigid || !each.allows(DeviceTypeId(0)) ||
              !plan.grants[i].devices.single_type().valid()) {
            continue;
          }
          plan.grants[i].devices = {};
          plan.grants[i].devices.of[0] = each.max_devices;
          total += each.max_devices;
        }
        return total > input.usable_by_type.of[0];
      }
      case PlanFault::kBatchNotAllowed:
        if (!type.valid()) return false;
        grant.batch = 7;
        return true;
      case PlanFault::kUnknownNode:
        grant.nodes = {{NodeId(999), 1}};
        return true;
      case PlanFault::kNodeListedTwice:
        for (const Node& node : input.cluster.nodes()) {
          if (node.type != type) continue;
          grant.nodes = {{node.id, 1}, {node.id, 1}};
          return true;
        }
        return false;
      case PlanFault::kNodesDisagree:
        if (!type.valid()) return false;
        grant.nodes.emplace();
        return true;
      case PlanFault::kNodeOvercommitted: {
        if (!type.valid()) return false;
        for (const Node& node : input.cluster.nodes()) {
          if (node.type != type || node.devices >= grant.devices[type]) continue;
          grant.nodes = {{node.id, grant.devices[type]}};
          return true;
        }
        return false;
      }
      case PlanFault::kBadRejection: {
        // A job that has devices or ran before.
        for (std::size_t i = 0; i < plan.grants.size(); ++i) {
          if (!type.valid() && input.jobs[i]->starts == 0) continue;
          plan.grants[type.valid() ? 0 : i].rejected = true;
          return true;
        }
        return false;
      }
      case PlanFault::kBadPlacementOrder:
        plan.placement_order.assign(plan.grants.size() + 1, 0);
        return true;
    }
    return false;
  }

  std::unique_ptr<Policy> honest_;
};

TEST(PlantedErrors, AreRejectedByNameAndEndTheSimulation) {
  const PolicyInfo info{.name = "saboteur",
                        .summary = "breaks a rule",
                        .source = "test",
                        .make = [](const Params&, Random) -> std::unique_ptr<Policy> {
                          return std::make_unique<Saboteur>();
                        }};
  for (int fault = 0; fault <= static_cast<int>(PlanFault::kBadPlacementOrder); ++fault) {
    Saboteur::planted = static_cast<PlanFault>(fault);
    int planted = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      RandomWorld world = random_world(seed);
      Saboteur::done = false;
      const auto result = simulate(world.cluster, world.workload, info,
                                   std::make_unique<Saboteur>(), world.options);
      if (!Saboteur::done) continue;
      ++planted;
      SCOPED_TRACE(fmt::format("seed {}, fault {}", seed, name(Saboteur::planted)));
      ASSERT_FALSE(result.ok());
      ASSERT_EQ(result.error().code, ErrorCode::kInvalidPlan);
      ASSERT_NE(result.error().message.find(name(Saboteur::planted)), std::string::npos)
          << result.error().message;
    }
    EXPECT_GT(planted, 0) << "never planted: " << name(Saboteur::planted);
  }
}

}  // namespace
}  // namespace rubato
