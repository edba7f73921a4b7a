// The operators of ONES keep their contracts on random problems, the predictor recovers what it was
// shown, and the search gives the same result with any number of threads.
#include "sched/policies/ones.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "model/parametric.h"
#include "sched/policies/ones_progress.h"
#include "sim/simulator.h"

namespace rubato {
namespace {

// --- Problems

// Jobs whose cost on c devices is weight x c^0.3 (time x devices at speed c^0.7). `rigid` jobs have
// one size.
OnesProblem random_problem(Random& random) {
  OnesProblem problem;
  problem.types = random.chance(0.3) ? 2 : 1;
  const int nodes = random.between(1, 6);
  for (int n = 0; n < nodes; ++n) {
    problem.node_devices.push_back(random.between(1, 4));
    problem.node_usable.push_back(random.chance(0.2)
                                      ? random.between(0, problem.node_devices.back())
                                      : problem.node_devices.back());
    problem.node_type.push_back(random.below(problem.types));
  }
  std::vector<int> free = problem.node_usable;
  const int jobs = random.between(1, 12);
  for (int j = 0; j < jobs; ++j) {
    OnesProblem::Job job;
    job.min_devices = random.between(1, 3);
    job.max_devices = random.chance(0.3) ? job.min_devices : random.between(job.min_devices, 8);
    const double weight = 1 + 100 * random.uniform();
    job.waiting = weight;
    job.costs.resize(problem.types);
    for (std::uint32_t t = 0; t < problem.types; ++t) {
      if (problem.types > 1 && random.chance(0.2)) continue;
      auto& costs = job.costs[t];
      costs.one_node.assign(static_cast<std::size_t>(job.max_devices) + 1, kNeverCost);
      costs.several = costs.one_node;
      for (int c = job.min_devices; c <= job.max_devices; ++c) {
        // Some sizes in between do not pay off.
        if (c > job.min_devices && random.chance(0.2)) continue;
        costs.one_node[static_cast<std::size_t>(c)] = weight * std::pow(c, 0.3);
        costs.several[static_cast<std::size_t>(c)] = weight * std::pow(c, 0.4);
      }
    }
    // Some jobs already run, on free devices of one node.
    const auto node = random.below(static_cast<std::uint32_t>(nodes));
    if (random.chance(0.5) && free[node] >= job.min_devices &&
        !job.costs[problem.node_type[node]].several.empty()) {
      job.current = {{node, job.min_devices}};
      job.unchanged = weight;
      free[node] -= job.min_devices;
    }
    problem.jobs.push_back(std::move(job));
  }
  return problem;
}

std::size_t devices_of(const OnesProblem& problem) {
  return static_cast<std::size_t>(
      std::accumulate(problem.node_devices.begin(), problem.node_devices.end(), 0));
}

OnesGenome random_genome(const OnesProblem& problem, Random& random) {
  OnesGenome genome;
  for (std::size_t i = 0; i < devices_of(problem); ++i) {
    genome.genes.push_back(
        static_cast<std::int16_t>(random.between(-1, static_cast<int>(problem.jobs.size()) - 1)));
  }
  return genome;
}

struct Held {
  std::vector<OnesProblem::Share> shares;
  std::uint32_t type = 0;
  int devices = 0;
};

std::vector<Held> held_of(const OnesGenome& genome, const OnesProblem& problem) {
  std::vector<Held> held(problem.jobs.size());
  std::size_t gene = 0;
  for (std::uint32_t n = 0; n < problem.node_devices.size(); ++n) {
    for (int k = 0; k < problem.node_devices[n]; ++k, ++gene) {
      if (genome.genes[gene] == kIdle) continue;
      EXPECT_LT(k, problem.node_usable[n]) << "a worker on a device that must not be used";
      Held& job = held[static_cast<std::size_t>(genome.genes[gene])];
      if (job.devices > 0) {
        EXPECT_EQ(job.type, problem.node_type[n]) << "a job mixes types";
      }
      if (job.shares.empty() || job.shares.back().node != n) job.shares.push_back({n, 0});
      // Workers of a job on a node are adjacent.
      if (job.shares.back().devices > 0) {
        EXPECT_EQ(genome.genes[gene], genome.genes[gene - 1]);
      }
      ++job.shares.back().devices;
      job.type = problem.node_type[n];
      ++job.devices;
    }
  }
  return held;
}

// Every job has an allowed size, no job could use the idle devices, and the score is correct.
void check(const OnesGenome& genome, const OnesProblem& problem) {
  ASSERT_EQ(genome.genes.size(), devices_of(problem));
  const auto held = held_of(genome, problem);
  std::vector<int> idle(problem.types, 0);
  for (std::size_t n = 0; n < problem.node_usable.size(); ++n) {
    idle[problem.node_type[n]] += problem.node_usable[n];
  }
  for (const Held& job : held) idle[job.type] -= job.devices;
  double score = 0;
  for (std::size_t j = 0; j < held.size(); ++j) {
    const OnesProblem::Job& job = problem.jobs[j];
    if (held[j].devices == 0) {
      score += job.waiting;
      for (std::uint32_t t = 0; t < problem.types; ++t) {
        if (!job.costs[t].several.empty()) {
          ASSERT_LT(idle[t], job.min_devices)
              << "devices stay idle although a job could start on them";
        }
      }
      continue;
    }
    const auto c = static_cast<std::size_t>(held[j].devices);
    const auto& costs = job.costs[held[j].type];
    ASSERT_LT(c, costs.several.size()) << "more than the maximum";
    ASSERT_LT(costs.several[c], kNeverCost) << "a size that the job must not have";
    score += held[j].shares == job.current ? job.unchanged
             : held[j].shares.size() > 1   ? costs.several[c]
                                           : costs.one_node[c];
    for (int more = 1; more <= idle[held[j].type]; ++more) {
      const auto larger = c + static_cast<std::size_t>(more);
      if (larger >= costs.several.size()) break;
      ASSERT_EQ(costs.several[larger], kNeverCost)
          << "devices stay idle although a job could use them";
    }
  }
  ASSERT_NEAR(genome.score, score, 1e-9 * std::max(1.0, std::abs(score)));
}

// --- Operators

TEST(OnesOperators, RefreshMakesAnyArrayACandidate) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const OnesProblem problem = random_problem(random);
    OnesOperators operators(problem, 0.1);
    OnesGenome genome = random_genome(problem, random);
    operators.refresh(genome, random);
    check(genome, problem);
    if (HasFatalFailure()) return;
  }
}

TEST(OnesOperators, CrossoverTakesEveryGeneFromAParentAndBreedMakesCandidates) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const OnesProblem problem = random_problem(random);
    OnesOperators operators(problem, 0.2);
    OnesGenome a = random_genome(problem, random);
    OnesGenome b = random_genome(problem, random);
    OnesGenome child;
    operators.crossover(a, b, child, random);
    for (std::size_t i = 0; i < child.genes.size(); ++i) {
      ASSERT_TRUE(child.genes[i] == a.genes[i] || child.genes[i] == b.genes[i]);
    }
    operators.refresh(a, random);
    operators.refresh(b, random);
    operators.breed(a, b, child, random);
    check(child, problem);
    if (HasFatalFailure()) return;
  }
}

TEST(OnesOperators, CrossoverIsUniform) {
  OnesProblem problem{.node_devices = {1000}, .node_usable = {1000}, .node_type = {0}};
  problem.jobs.resize(1);
  problem.jobs[0].costs = {{{kNeverCost, 1}, {kNeverCost, 1}}};
  OnesOperators operators(problem, 0.1);
  const OnesGenome a{.genes = std::vector<std::int16_t>(1000, 0)};
  const OnesGenome b{.genes = std::vector<std::int16_t>(1000, kIdle)};
  OnesGenome child;
  Random random(3);
  operators.crossover(a, b, child, random);
  // 500 expected, deviation 15.8.
  EXPECT_NEAR(static_cast<double>(std::count(child.genes.begin(), child.genes.end(), 0)), 500, 64);
}

TEST(OnesOperators, MutationPreemptsWithProbabilityTheta) {
  OnesProblem problem{.node_devices = {1000}, .node_usable = {1000}, .node_type = {0}};
  problem.jobs.resize(1000);
  OnesGenome genome;
  for (std::size_t j = 0; j < 1000; ++j) {
    problem.jobs[j].costs = {{{kNeverCost, 1}, {kNeverCost, 1}}};
    genome.genes.push_back(static_cast<std::int16_t>(j));
  }
  OnesOperators operators(problem, 0.2);
  Random random(5);
  operators.count(genome);
  operators.mutate(random);
  int preempted = 0;
  for (std::size_t j = 0; j < 1000; ++j) preempted += operators.size(j) == 0 ? 1 : 0;
  EXPECT_NEAR(preempted, 200, 52);  // deviation 12.6
}

TEST(OnesOperators, ReorderKeepsCountsAndPutsWorkersTogether) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const OnesProblem problem = random_problem(random);
    OnesOperators operators(problem, 0.1);
    OnesGenome genome = random_genome(problem, random);
    operators.count(genome);
    std::vector<int> sizes;
    for (std::size_t j = 0; j < problem.jobs.size(); ++j) sizes.push_back(operators.size(j));
    operators.reorder(genome, random.chance(0.5));
    const auto held = held_of(genome, problem);  // checks that workers are adjacent
    for (std::size_t j = 0; j < sizes.size(); ++j) ASSERT_EQ(held[j].devices, sizes[j]);
  }
}

TEST(OnesOperators, ReorderPacksScatteredWorkersOnFewestNodes) {
  // Two jobs of four workers, scattered over two nodes of four.
  OnesProblem problem{.node_devices = {4, 4}, .node_usable = {4, 4}, .node_type = {0, 0}};
  problem.jobs.resize(2);
  for (auto& job : problem.jobs) {
    job.min_devices = job.max_devices = 4;
    job.costs = {{std::vector<double>(5, kNeverCost), std::vector<double>(5, kNeverCost)}};
    job.costs[0].one_node[4] = 1;
    job.costs[0].several[4] = 2;
  }
  OnesOperators operators(problem, 0.1);
  OnesGenome genome{.genes = {0, 1, 0, 1, 1, 0, 1, 0}};
  operators.count(genome);
  operators.reorder(genome, false);
  EXPECT_EQ(genome.score, 2);
  EXPECT_EQ(std::count(genome.genes.begin(), genome.genes.begin() + 4, genome.genes[0]), 4);
}

TEST(OnesOperators, AJobThatKeepsItsSizeKeepsItsDevices) {
  OnesProblem problem{.node_devices = {2, 2}, .node_usable = {2, 2}, .node_type = {0, 0}};
  problem.jobs.resize(2);
  for (auto& job : problem.jobs) {
    job.costs = {{{kNeverCost, 5}, {kNeverCost, 5}}};
    job.unchanged = 3;
  }
  problem.jobs[0].current = {{1, 1}};
  problem.jobs[1].current = {{0, 1}};
  OnesOperators operators(problem, 0.1);
  OnesGenome genome{.genes = {0, kIdle, 1, kIdle}};  // the other way round
  operators.count(genome);
  operators.reorder(genome, false);
  EXPECT_EQ(genome.genes, (std::vector<std::int16_t>{1, kIdle, 0, kIdle}));
  EXPECT_EQ(genome.score, 6);
}

TEST(OnesSearch, FindsTheBestDivisionOfASmallProblem) {
  // Costs are convex in the devices. By hand: the marginal gains are 8, 4, 2, 1 for 'a' and 6, 3,
  // 1.5 for 'b', so four devices are divided two and two.
  OnesProblem problem{.node_devices = {4}, .node_usable = {4}, .node_type = {0}};
  problem.jobs.resize(2);
  problem.jobs[0].costs = {{{kNeverCost, -8, -12, -14, -15}, {kNeverCost, -8, -12, -14, -15}}};
  problem.jobs[1].costs = {{{kNeverCost, -6, -9, -10.5, -11}, {kNeverCost, -6, -9, -10.5, -11}}};
  for (auto& job : problem.jobs) job.max_devices = 4;
  OnesSearch search({}, Random(1));
  EXPECT_EQ(search.run(problem, {}).score, -21);
}

TEST(OnesSearch, SameResultOnAnyNumberOfThreads) {
  // Large enough that threads are actually used.
  OnesProblem problem;
  Random random(11);
  for (int n = 0; n < 128; ++n) {
    problem.node_devices.push_back(4);
    problem.node_usable.push_back(4);
    problem.node_type.push_back(0);
  }
  for (int j = 0; j < 100; ++j) {
    OnesProblem::Job job;
    job.max_devices = 16;
    job.costs.resize(1);
    const double weight = 1 + 100 * random.uniform();
    for (int c = 0; c <= 16; ++c) {
      job.costs[0].one_node.push_back(c == 0 || c > 4 ? kNeverCost : weight / std::pow(c, 0.7));
      job.costs[0].several.push_back(c == 0 ? kNeverCost : weight / std::pow(c, 0.6));
    }
    job.waiting = 10 * weight;
    problem.jobs.push_back(std::move(job));
  }
  std::vector<std::int16_t> same(100);
  std::iota(same.begin(), same.end(), std::int16_t{0});
  const auto twice = [&](int threads) {
    OnesOptions options;
    options.threads = threads;
    options.patience = 20;
    OnesSearch search(options, Random(4));
    search.run(problem, {});
    return search.run(problem, same);
  };
  const OnesGenome one = twice(1);
  for (const int threads : {2, 3, 8}) {
    const OnesGenome many = twice(threads);
    EXPECT_EQ(many.score, one.score);
    EXPECT_EQ(many.genes, one.genes);
  }
}

// --- Progress

TEST(OnesProgress, BetaDrawsHaveTheRightMeanAndDeviation) {
  Random random(2);
  for (const auto& [alpha, beta] : {std::pair{1.0, 1.0}, {0.3, 2.0}, {5.0, 20.0}, {80.0, 1.5}}) {
    constexpr int kDraws = 20'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double rho = draw_beta(alpha, beta, random);
      ASSERT_GT(rho, 0);
      ASSERT_LT(rho, 1);
      sum += rho;
      squares += rho * rho;
    }
    const double mean = alpha / (alpha + beta);
    const double variance = alpha * beta / ((alpha + beta) * (alpha + beta) * (alpha + beta + 1));
    EXPECT_NEAR(sum / kDraws, mean, 5 * std::sqrt(variance / kDraws));
    EXPECT_NEAR(squares / kDraws - sum / kDraws * sum / kDraws, variance, 0.05 * variance);
  }
}

TEST(OnesProgress, BelievesTheOwnerBeforeItLearned) {
  const RemainingEpochs model;
  EXPECT_NEAR(model.predict({.epochs_done = 30, .epochs_declared = 90}), 60, 1e-9);
  EXPECT_NEAR(model.predict({.epochs_done = 30}), 30, 1e-9);  // as much again
  EXPECT_NEAR(model.predict({}), 1, 1e-9);
}

TEST(OnesProgress, LearnsThatJobsStopEarly) {
  // Jobs declare 20 to 200 epochs and end after 30 % of them.
  RemainingEpochs model;
  Random random(8);
  for (int job = 0; job < 300; ++job) {
    const double declared = random.between(20, 200);
    const double done = random.uniform() * 0.2 * declared;
    model.learn({.epochs_done = done, .epochs_declared = declared}, 0.3 * declared - done);
  }
  const ProgressFeatures fresh{.epochs_declared = 100};
  EXPECT_NEAR(model.predict(fresh), 30, 1);
  EXPECT_NEAR(model.predict({.epochs_done = 20, .epochs_declared = 100}), 10, 1);
  EXPECT_NEAR(model.predict({.epochs_done = 5, .epochs_declared = 50}), 10, 1);
  // The resulting distribution: alpha = 1, beta = what is predicted.
  const ProgressBelief belief = believe(fresh, model);
  EXPECT_NEAR(belief.mean(), 1 / (1 + model.predict(fresh)), 1e-12);
}

TEST(OnesProgress, RemainingConcentratesAsAJobProceeds) {
  // A job of 100 epochs: the median of what remains is right, and its spread shrinks.
  RemainingEpochs model;
  Random random(9);
  double last_spread = 1e9;
  for (const double done : {5.0, 25.0, 75.0}) {
    const ProgressBelief belief = believe({.epochs_done = done, .epochs_declared = 100}, model);
    std::vector<double> draws;
    draws.reserve(4001);
    for (int i = 0; i < 4001; ++i) {
      draws.push_back(belief.remaining(draw_beta(belief.alpha, belief.beta, random)));
    }
    std::sort(draws.begin(), draws.end());
    EXPECT_NEAR(draws[2000], 100 - done, 0.1 * (100 - done)) << done;
    const double spread = draws[3000] - draws[1000];
    EXPECT_LT(spread, last_spread);
    last_spread = spread;
  }
}

// --- The policy

// A job whose gradient noise is so large that larger batches always pay off.
Workload one_adaptive_job(int epochs) {
  Application::Description d{.name = "app"};
  d.batch = {.initial = 32, .max = 1024, .min_local = 32, .max_local = 64};
  d.epochs = epochs;
  for (std::int64_t batch = 32; batch <= 1024; batch *= 2) {
    BatchRecord record;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      record.progress.push_back(100.0 * (epoch + 1));
      record.iteration.push_back(100.0 * (epoch + 1) * 32 / static_cast<double>(batch));
      record.noise.push_back({1.0, 1e6});
    }
    d.records.emplace(batch, std::move(record));
  }
  d.speed = {std::make_shared<ParametricSpeed>(
      PerfParams{.alpha_c = 0.5, .beta_c = 0.01, .alpha_n = 0.05, .alpha_r = 0.05, .gamma = 1})};
  WorkloadJob job{.application = std::make_shared<const Application>(std::move(d))};
  job.spec = {.id = JobId(0), .name = "job", .mode = ElasticMode::kAdaptive};
  job.spec.batch = job.application->batch();
  job.spec.requested_batch = 32;
  job.spec.max_devices = 16;
  job.spec.epochs = epochs;
  Workload workload{.name = "one"};
  workload.jobs.push_back(std::move(job));
  return workload;
}

TEST(Ones, TheBatchLimitStartsAtOneDeviceAndDoublesAfterAnEpochAtTheLimit) {
  std::vector<std::pair<double, std::int64_t>> batches;  // epochs done, batch
  SimOptions options;
  options.resize.stop_s = 0;
  options.on_round = [&](const Scheduler& scheduler) {
    if (scheduler.jobs().empty()) return;
    const JobState& job = *scheduler.jobs().front();
    if (!job.running()) return;
    ASSERT_GE(job.allocation.batch, 32);
    ASSERT_LE(job.allocation.batch, 64 * job.allocation.devices());  // memory
    batches.emplace_back(job.progress->epochs_done(job.changed_at_s), job.allocation.batch);
  };
  const auto result =
      simulate(*Cluster::parse("4x4"), one_adaptive_job(40), **find_policy("ones"), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  // The limit starts at 64. Every doubling needs an epoch at the limit.
  std::int64_t largest = 0;
  double since = 0;
  for (const auto& [epochs, batch] : batches) {
    if (batch <= std::max<std::int64_t>(64, largest)) {
      if (batch > largest) since = epochs;
      largest = std::max(largest, batch);
      continue;
    }
    EXPECT_LE(batch, 2 * largest);
    EXPECT_GE(epochs - since, 1.0 - 1e-6);
    largest = batch;
    since = epochs;
  }
  EXPECT_EQ(largest, 1024);
}

}  // namespace
}  // namespace rubato
