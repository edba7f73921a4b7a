// A preemption under the policy `rubato` pays for itself, and equal jobs are not swapped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "model/parametric.h"
#include "sched/scheduler.h"
#include "sim/simulator.h"

namespace rubato {
namespace {

constexpr int kJobs = 20;
constexpr Seconds kTwoHours = 7200;

struct Outcome {
  int preemptions = 0;  // until all jobs have ended
  int in_the_worst_hour = 0;
  SimSummary summary;
};

std::shared_ptr<const Application> application(int epochs, Seconds length_s) {
  Application::Description d{.name = "train"};
  d.batch = {.initial = 8, .max = 8, .min_local = 1, .max_local = 8};
  d.epochs = epochs;
  BatchRecord record;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    record.progress.push_back(length_s * epoch / epochs);
    record.iteration.push_back(length_s * epoch / epochs);
    record.noise.push_back({1.0, 1e-9});
  }
  d.records.emplace(8, std::move(record));
  d.speed.push_back(std::make_shared<ParametricSpeed>(PerfParams{.alpha_c = 1}));
  return std::make_shared<const Application>(std::move(d));
}

// What owners say about their jobs.
enum class Told { kEpochs, kApplication, kNothing };

Outcome run(Told told, Seconds cost_s) {
  Workload workload;
  workload.name = "equal";
  const auto app = application(10, kTwoHours);
  for (int i = 0; i < kJobs; ++i) {
    WorkloadJob& job = workload.jobs.emplace_back();
    job.spec.id = JobId(static_cast<std::size_t>(i));
    job.spec.name = "job" + std::to_string(i);
    job.spec.mode = ElasticMode::kRigid;
    job.duration_s = kTwoHours;
    if (told == Told::kNothing) continue;
    job.application = app;
    job.spec.application = "train";
    job.spec.batch = app->batch();
    job.spec.requested_batch = 8;
    job.spec.epochs = told == Told::kEpochs ? app->epochs() : 0;
  }
  SimOptions options;
  options.resize.stop_s = cost_s;
  std::map<JobId, bool> runs;
  std::map<int, int> by_hour;
  Outcome outcome;
  options.on_round = [&](const Scheduler& scheduler) {
    for (const JobState* job : scheduler.jobs()) {
      bool& before = runs[job->spec.id];
      if (before && !job->running()) {
        ++outcome.preemptions;
        ++by_hour[static_cast<int>(job->changed_at_s / 3600)];
      }
      before = job->running();
    }
  };
  const Cluster cluster = *Cluster::parse("1x4");
  const auto result = simulate(cluster, workload, **find_policy("rubato"), options);
  EXPECT_TRUE(result.ok());
  for (const auto& [hour, count] : by_hour) {
    outcome.in_the_worst_hour = std::max(outcome.in_the_worst_hour, count);
  }
  if (result.ok()) outcome.summary = result->summary;
  static constexpr const char* kKnown[] = {"epochs are known", "the application is known",
                                           "nothing is known"};
  fmt::print(
      "{} rigid jobs of 2 h on 4 slots, {:g} s per start, {}: {} preemptions, at most {} in "
      "an hour\n",
      kJobs, cost_s, kKnown[static_cast<int>(told)], outcome.preemptions,
      outcome.in_the_worst_hour);
  return outcome;
}

// 485 preemptions in 32 minutes, live: a job that had waited a little longer than a start takes
// seemed worth more than an equal one that ran.
TEST(Preemption, EqualJobsOfKnownLengthAreNeverSwapped) {
  for (const Seconds cost : {0.0, 1.0, 30.0}) {
    const Outcome outcome = run(Told::kEpochs, cost);
    EXPECT_EQ(outcome.preemptions, 0) << cost;
    EXPECT_EQ(outcome.summary.jobs_finished, kJobs);
    // In five turns of two hours.
    EXPECT_NEAR(outcome.summary.mean_jct_s, 3 * kTwoHours, 3 * kTwoHours * 0.02);
  }
}

TEST(Preemption, EqualJobsOfUnknownLengthAreNeverSwappedIfTheyAreOfOneApplication) {
  for (const Seconds cost : {0.0, 1.0, 30.0}) {
    EXPECT_EQ(run(Told::kApplication, cost).preemptions, 0) << cost;
  }
}

// Nothing says that these jobs are equal. Who has run long is expected to run long, so others may
// have a turn, but seldom.
TEST(Preemption, JobsOfWhichNothingIsKnownAreSwappedSeldom) {
  for (const Seconds cost : {1.0, 30.0}) {
    EXPECT_LT(run(Told::kNothing, cost).in_the_worst_hour, 10) << cost;
  }
}

// One device. A job of two hours; half an hour later one of five minutes.
SimResult long_and_short() {
  Workload workload;
  for (int i = 0; i < 2; ++i) {
    WorkloadJob& job = workload.jobs.emplace_back();
    job.application = application(10, i == 0 ? kTwoHours : 300);
    job.spec.id = JobId(static_cast<std::size_t>(i));
    job.spec.mode = ElasticMode::kRigid;
    job.spec.submit_s = i * 1800;
    job.spec.application = i == 0 ? "long" : "short";
    job.spec.batch = job.application->batch();
    job.spec.requested_batch = 8;
    job.spec.epochs = 10;
  }
  const auto result =
      simulate(*Cluster::parse("1x1"), workload, **find_policy("rubato"), SimOptions{});
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : SimResult{};
}

TEST(Preemption, AShortJobStopsALongOne) {
  const SimResult result = long_and_short();
  EXPECT_LT(result.jobs.at(1).jct_s(), 600);
  EXPECT_EQ(result.jobs.at(0).resizes, 1);
}

// One device. A job of five minutes alone, so that its program is known; then one of two hours, and
// when that has a quarter of an hour left, another one of five minutes.
SimResult shortly_before_the_end(bool starts_over) {
  constexpr Seconds kLongAt = 400;
  Workload workload;
  for (int i = 0; i < 3; ++i) {
    const bool is_long = i == 1;
    WorkloadJob& job = workload.jobs.emplace_back();
    job.application = application(10, is_long ? kTwoHours : 300);
    job.spec.id = JobId(static_cast<std::size_t>(i));
    job.spec.mode = ElasticMode::kRigid;
    job.spec.starts_over = starts_over;
    job.spec.submit_s = i == 0 ? 0 : is_long ? kLongAt : kLongAt + kTwoHours - 900;
    job.spec.application = is_long ? "long" : "short";
    job.spec.batch = job.application->batch();
    job.spec.requested_batch = 8;
    job.spec.epochs = 10;
  }
  const auto result =
      simulate(*Cluster::parse("1x1"), workload, **find_policy("rubato"), SimOptions{});
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : SimResult{};
}

// Of a job that keeps no checkpoints, stopping loses all its work: nearly two hours.
TEST(Preemption, AJobThatStartsOverIsNotStoppedShortlyBeforeItsEnd) {
  EXPECT_EQ(shortly_before_the_end(false).jobs.at(1).resizes, 1);
  const SimResult result = shortly_before_the_end(true);
  EXPECT_EQ(result.jobs.at(1).resizes, 0);
  EXPECT_NEAR(result.jobs.at(1).jct_s(), kTwoHours, 120);
}

}  // namespace
}  // namespace rubato
