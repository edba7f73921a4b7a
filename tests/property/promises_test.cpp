// Promises beyond the rules of a valid plan: what a priority means, that equal jobs are not
// swapped, and that no measurement is lost. On random worlds; a failure prints the seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "property/checks.h"
#include "property/random_world.h"
#include "sched/scheduler.h"

namespace rubato {
namespace {

constexpr std::uint64_t kPromiseWorlds = 400;  // per policy

class PromisesOf : public testing::TestWithParam<std::string> {
 protected:
  const PolicyInfo& info() const { return **find_policy(GetParam()); }
  // Solving a mixed-integer program for every decision takes long.
  std::uint64_t worlds() const { return info().name == "mip" ? 50 : kPromiseWorlds; }
};

// The devices on which a job could run if it had these: of one type unless it mixes them.
int usable_by(const JobSpec& spec, const DeviceCounts& counts, const Cluster& cluster) {
  int most = 0;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (!spec.allows(DeviceTypeId(type))) continue;
    most = spec.mixes_types ? most + counts.of[type] : std::max(most, counts.of[type]);
  }
  return most;
}

// A waiting job could not run on what is idle or held by jobs of lower priority. Where the policy
// itself holds a job back, as many devices as that job needs are idle.
void check_priorities(const Scheduler& scheduler, const DeviceCounts& usable, long& checked) {
  const Cluster& cluster = scheduler.cluster();
  DeviceCounts idle = usable;
  for (const JobState* job : scheduler.jobs()) {
    const DeviceCounts held = job->allocation.counts(cluster);
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) idle.of[type] -= held.of[type];
  }
  for (const JobState* job : scheduler.jobs()) {
    if (job->running()) continue;
    DeviceCounts within_reach = idle;
    int lower = 0;
    for (const JobState* other : scheduler.jobs()) {
      if (other->spec.priority >= job->spec.priority) continue;
      const DeviceCounts held = other->allocation.counts(cluster);
      for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
        within_reach.of[type] += held.of[type];
        lower += held.of[type];
      }
    }
    if (lower == 0) continue;
    ++checked;
    if (usable_by(job->spec, within_reach, cluster) < job->spec.smallest()) continue;
    const bool held_back =
        std::any_of(scheduler.jobs().begin(), scheduler.jobs().end(), [&](const JobState* other) {
          return !other->running() && other->spec.priority >= job->spec.priority &&
                 usable_by(other->spec, idle, cluster) >= other->spec.smallest();
        });
    ASSERT_TRUE(held_back) << job->spec.name << " waits for " << job->spec.smallest()
                           << " devices, and jobs of lower priority hold some that it could use";
  }
}

TEST_P(PromisesOf, AJobNeverWaitsForDevicesThatJobsOfLowerPriorityHold) {
  long checked = 0;
  for (std::uint64_t seed = 1; seed <= worlds(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomWorld world = random_world(seed);
    world.options.settings = quick_settings(info());
    world.options.node_events.clear();  // so that everything is usable
    world.options.serving_load.clear();
    world.options.on_round = [&](const Scheduler& scheduler) {
      check_priorities(scheduler, world.cluster.capacity(), checked);
    };
    const auto result = simulate(world.cluster, world.workload, info(), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(checked, 20);
}

INSTANTIATE_TEST_SUITE_P(Policies, PromisesOf, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const PolicyInfo& each : policy_table()) names.push_back(each.name);
                           return names;
                         }()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Whether the second could do nothing for the first that the first does not do for itself.
bool equal_jobs(const JobSpec& a, const JobSpec& b) {
  return !a.application.empty() && a.application == b.application && a.mode == b.mode &&
         a.min_devices == b.min_devices && a.max_devices == b.max_devices &&
         a.requested_devices == b.requested_devices && a.requested_batch == b.requested_batch &&
         a.logical_workers == b.logical_workers && a.allowed_types == b.allowed_types &&
         a.power_of_two_sizes == b.power_of_two_sizes && a.epochs == b.epochs;
}

// Worlds in which several jobs are equal: every second one is a copy of the one before it.
RandomWorld world_of_equals(std::uint64_t seed) {
  RandomWorld world = random_world(seed);
  std::vector<WorkloadJob>& jobs = world.workload.jobs;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Seconds submit_s = jobs[i].spec.submit_s;
    if (i % 2 == 1) jobs[i] = jobs[i - 1];
    jobs[i].spec.submit_s = submit_s;
    jobs[i].spec.id = JobId(i);
    jobs[i].spec.name = "job" + std::to_string(i);
    jobs[i].spec.priority = 0;
    if (jobs[i].application) jobs[i].spec.epochs = jobs[i].application->epochs();
  }
  return world;
}

// What every job had and has.
std::string described(const Scheduler& scheduler, const std::map<JobId, int>& before) {
  std::string text = fmt::format("{} devices", scheduler.usable());
  for (const JobState* job : scheduler.jobs()) {
    const auto had = before.find(job->spec.id);
    text += fmt::format("\n{} {} {}..{} of {}: {} -> {}", job->spec.name, to_string(job->spec.mode),
                        job->spec.smallest(), job->spec.max_devices, job->spec.application,
                        had == before.end() ? 0 : had->second, job->allocation.devices());
  }
  return text;
}

TEST(RubatoPromises, AJobIsNeverStoppedForAnEqualOneThatHasNoLessToDo) {
  long stopped = 0;
  for (std::uint64_t seed = 1; seed <= 3 * kPromiseWorlds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomWorld world = world_of_equals(seed);
    if (world.cluster.type_count() > 1) continue;
    std::map<JobId, int> ran;  // with so many devices
    world.options.on_round = [&](const Scheduler& scheduler) {
      for (const JobState* out : scheduler.jobs()) {
        if (out->running() || !ran.contains(out->spec.id) || out->reason != Reason::kPreempted) {
          continue;
        }
        ++stopped;
        const Seconds now_s = out->changed_at_s;
        for (const JobState* in : scheduler.jobs()) {
          if (!in->running() || ran.contains(in->spec.id) || !equal_jobs(out->spec, in->spec)) {
            continue;
          }
          EXPECT_LT(out->progress->epochs_done(now_s), in->progress->epochs_done(now_s))
              << out->spec.name << " was stopped for " << in->spec.name << " at " << now_s << "\n"
              << described(scheduler, ran);
        }
      }
      ran.clear();
      for (const JobState* job : scheduler.jobs()) {
        if (job->running()) ran[job->spec.id] = job->allocation.devices();
      }
    };
    const auto result =
        simulate(world.cluster, world.workload, **find_policy("rubato"), world.options);
    ASSERT_TRUE(result.ok()) << result.error().message;
    if (HasFailure()) return;
  }
  EXPECT_GT(stopped, 20);
}

// Whatever the order of sizes, and however often values change.
TEST(LearnedModels, ACopyThatIsToldOfChangesHasEveryMeasurement) {
  constexpr BatchLimits kLimits{.initial = 8, .max = 64, .min_local = 1, .max_local = 64};
  const DeviceTypeId type(std::size_t{0});
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    LearnedModel source(kLimits);
    LearnedModel copy(kLimits);
    std::size_t revision = 0;
    const auto pass_on = [&] {
      source.tell_since(revision, type, [&](const Observation& seen) { copy.report(seen, {}); });
      revision = source.revision();
    };
    for (int i = 0; i < 60; ++i) {
      source.report({.type = type,
                     .nodes = 1,
                     .devices = random.between(1, 8),
                     .local = random.between(1, 2),
                     .step_s = 0.1 + random.uniform(),
                     .sync_s = 0,
                     .measurements = random.between(1, 3)},
                    {});
      if (random.chance(0.3)) pass_on();
    }
    pass_on();
    ASSERT_EQ(source.observations(type).size(), copy.observations(type).size());
    for (const Observation& seen : source.observations(type)) {
      const auto known = copy.observations(type);
      ASSERT_TRUE(std::any_of(known.begin(), known.end(),
                              [&](const Observation& o) {
                                return o.devices == seen.devices && o.local == seen.local &&
                                       o.step_s == seen.step_s;
                              }))
          << seen.devices << " devices";
    }
  }
}

}  // namespace
}  // namespace rubato
