#include "model/parametric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <vector>

#include "base/random.h"
#include "unit/sched_helpers.h"

namespace rubato {
namespace {

// --- the formulas --------------------------------------------------------------------------------

constexpr PerfParams kPlain{.alpha_c = 0.1,
                            .beta_c = 0.002,
                            .alpha_n = 0.2,
                            .beta_n = 0.03,
                            .alpha_r = 0.05,
                            .beta_r = 0.01,
                            .gamma = 1};

TEST(PerfParams, ComputingIsLinearInTheMicroBatch) {
  EXPECT_DOUBLE_EQ(kPlain.compute_s(0), 0.1);
  EXPECT_DOUBLE_EQ(kPlain.compute_s(50), 0.2);  // 0.1 + 0.002 x 50
}

TEST(PerfParams, SynchronisingDependsOnNodesAndFurtherDevices) {
  // Each device beyond two adds beta. The model keeps 1e-8 where the formula has 0.
  EXPECT_NEAR(kPlain.sync_s(1, 1), 0, 1e-7);
  EXPECT_NEAR(kPlain.sync_s(1, 2), 0.05, 1e-7);
  EXPECT_NEAR(kPlain.sync_s(1, 4), 0.07, 1e-7);  // 0.05 + 0.01 x 2
  EXPECT_NEAR(kPlain.sync_s(2, 2), 0.2, 1e-7);
  EXPECT_NEAR(kPlain.sync_s(2, 3), 0.23, 1e-7);           // 0.2 + 0.03 x 1
  EXPECT_NEAR(kPlain.sync_s(4, 16), 0.62, 1e-7);          // 0.2 + 0.03 x 14
  EXPECT_EQ(kPlain.sync_s(2, 16), kPlain.sync_s(4, 16));  // how many nodes does not matter
}

TEST(PerfParams, WithoutOverlapAStepIsTheSum) {
  EXPECT_NEAR(kPlain.step_s(1, 1, 50), 0.2, 1e-7);
  EXPECT_NEAR(kPlain.step_s(1, 4, 50), 0.27, 1e-7);   // 0.2 + 0.07
  EXPECT_NEAR(kPlain.step_s(4, 16, 50), 0.82, 1e-7);  // 0.2 + 0.62
}

TEST(PerfParams, WithOverlapAStepIsThePNorm) {
  PerfParams params = kPlain;
  params.gamma = 2;
  EXPECT_NEAR(params.step_s(1, 1, 50), 0.2, 1e-7);
  // Computing 0.3 (m = 100), synchronising 0.4: 0.2 + 0.03 (K - 2) = 0.4 would need K = 8.67, so
  // take alpha_n = 0.4 and K = 2. sqrt(0.3^2 + 0.4^2) = 0.5.
  params.alpha_n = 0.4;
  EXPECT_NEAR(params.step_s(2, 2, 100), 0.5, 1e-7);
  // One node, K = 4: sqrt(0.2^2 + 0.07^2) = sqrt(0.0449) = 0.2118962...
  EXPECT_NEAR(params.step_s(1, 4, 50), 0.21189620, 1e-7);
  // Maximum overlap: hardly more than the larger part. 0.4 (1 + 0.75^10)^0.1
  params.gamma = 10;
  EXPECT_NEAR(params.step_s(2, 2, 100), 0.4 * std::pow(1 + std::pow(0.75, 10), 0.1), 1e-7);
}

TEST(PerfParams, TheStepIsContinuousInTheOverlap) {
  PerfParams almost = kPlain;
  almost.gamma = 1 + 1e-9;
  EXPECT_NEAR(almost.step_s(2, 8, 64), kPlain.step_s(2, 8, 64), 1e-8);
}

TEST(ParametricSpeed, ReportsWhatSynchronisationAddsToTheStep) {
  const ParametricSpeed speed(kPlain);
  const StepTime within = speed.step_time(Placement(kType, {4}), 50);
  EXPECT_NEAR(within.step_s, 0.27, 1e-7);
  EXPECT_NEAR(within.sync_s, 0.07, 1e-7);
  const StepTime across = speed.step_time(Placement(kType, {2, 1}), 50);
  EXPECT_NEAR(across.step_s, 0.43, 1e-7);
  EXPECT_EQ(speed.params().alpha_c, 0.1);
  // Overlap hides part of it: 0.2119 - 0.2.
  PerfParams overlapping = kPlain;
  overlapping.gamma = 2;
  EXPECT_NEAR(ParametricSpeed(overlapping).step_time(Placement(kType, {4}), 50).sync_s, 0.0118962,
              1e-7);
}

// --- the fit -------------------------------------------------------------------------------------

struct Shape {
  int nodes;
  int devices;
};

Observation observe(const PerfParams& truth, Shape shape, std::int64_t local) {
  const double step = truth.step_s(shape.nodes, shape.devices, static_cast<double>(local));
  const double compute = std::min(step, truth.compute_s(static_cast<double>(local)));
  return {.type = kType,
          .nodes = shape.nodes,
          .devices = shape.devices,
          .local = local,
          .step_s = step,
          .sync_s = step - compute};
}

std::vector<Observation> observe_all(const PerfParams& truth, const std::vector<Shape>& shapes,
                                     const std::vector<std::int64_t>& locals) {
  std::vector<Observation> all;
  for (const Shape& shape : shapes) {
    for (const std::int64_t local : locals) all.push_back(observe(truth, shape, local));
  }
  return all;
}

const std::vector<Shape> kSeen{{1, 1}, {1, 2}, {1, 4}, {2, 2}, {2, 8}, {4, 16}};
const std::vector<std::int64_t> kSeenLocals{16, 64, 256};

bool finite(const PerfParams& p) {
  for (const double value :
       {p.alpha_c, p.beta_c, p.alpha_n, p.beta_n, p.alpha_r, p.beta_r, p.gamma}) {
    if (!std::isfinite(value) || value <= 0) return false;
  }
  return p.gamma >= 1 && p.gamma <= 10;
}

double log_uniform(Random& random, double low, double high) {
  return low * std::exp(random.uniform() * std::log(high / low));
}

PerfParams random_params(Random& random) {
  PerfParams p{.alpha_c = log_uniform(random, 0.01, 0.3),
               .beta_c = log_uniform(random, 1e-4, 1e-2),
               .alpha_n = log_uniform(random, 0.05, 0.5),
               .alpha_r = log_uniform(random, 0.01, 0.2),
               .gamma = 1 + 3 * random.uniform()};
  p.beta_n = p.alpha_n * log_uniform(random, 0.005, 0.1);
  p.beta_r = p.alpha_r * log_uniform(random, 0.005, 0.1);
  return p;
}

TEST(Fit, RecoversWhatItHasNotSeen) {
  constexpr std::uint64_t kSeed = 20240601;
  std::cout << "seed " << kSeed << '\n';
  Random random(kSeed);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(testing::Message() << "parameter set " << round);
    const PerfParams truth = random_params(random);
    const auto seen = observe_all(truth, kSeen, kSeenLocals);
    const PerfParams fitted = fit(seen);
    ASSERT_TRUE(finite(fitted));
    EXPECT_LE(fit_error(fitted, seen), fit_error(truth, seen) + 2e-3);
    for (const Shape& shape : {Shape{1, 1}, {1, 3}, {2, 4}, {3, 12}}) {
      for (const std::int64_t local : {32, 128, 200}) {
        const double expected =
            truth.step_s(shape.nodes, shape.devices, static_cast<double>(local));
        const double actual = fitted.step_s(shape.nodes, shape.devices, static_cast<double>(local));
        EXPECT_NEAR(actual / expected, 1, 0.02)
            << shape.nodes << " nodes, " << shape.devices << " devices, micro-batch " << local;
      }
    }
  }
}

TEST(Fit, RecoversTheParametersThemselvesWithoutOverlap) {
  const auto seen = observe_all(kPlain, kSeen, kSeenLocals);
  const PerfParams fitted = fit(seen);
  EXPECT_NEAR(fitted.alpha_c, 0.1, 0.002);
  EXPECT_NEAR(fitted.beta_c, 0.002, 4e-5);
  EXPECT_NEAR(fitted.alpha_n, 0.2, 0.01);
  EXPECT_NEAR(fitted.alpha_r, 0.05, 0.003);
  EXPECT_NEAR(fitted.gamma, 1, 0.05);
}

TEST(Fit, IsDeterministic) {
  const auto seen = observe_all(kPlain, kSeen, kSeenLocals);
  const PerfParams once = fit(seen);
  const PerfParams again = fit(seen);
  EXPECT_EQ(once.alpha_c, again.alpha_c);
  EXPECT_EQ(once.beta_c, again.beta_c);
  EXPECT_EQ(once.alpha_n, again.alpha_n);
  EXPECT_EQ(once.beta_n, again.beta_n);
  EXPECT_EQ(once.alpha_r, again.alpha_r);
  EXPECT_EQ(once.beta_r, again.beta_r);
  EXPECT_EQ(once.gamma, again.gamma);
}

TEST(Fit, FitErrorIsTheRootMeanSquaredLogarithmicErrorPlusPriors) {
  // One observation on one device: computing is predicted as 0.2 and measured as 0.1, so both
  // errors are ln 2. The priors are 0 for gamma = 1 and 0.01 (beta/alpha)^2 = 0.01 x (0.15^2 +
  // 0.2^2) for the others.
  const std::vector<Observation> seen{
      {.type = kType, .nodes = 1, .devices = 1, .local = 50, .step_s = 0.1, .sync_s = 0}};
  EXPECT_NEAR(fit_error(kPlain, seen), 2 * std::log(2) + 0.01 * (0.0225 + 0.04), 1e-6);
  PerfParams bent = kPlain;
  bent.gamma = 3;  // + 0.001 (3 - 1)^2; one device does not synchronise
  EXPECT_NEAR(fit_error(bent, seen), 2 * std::log(2) + 0.000625 + 0.004, 1e-6);
}

TEST(Fit, OneBatchSizeMakesHalfOfComputingConstant) {
  // Computing takes 0.2 at m = 50: 0.1 constant, 0.1 / 50 = 0.002 per sample.
  const auto seen = observe_all(kPlain, {{1, 1}, {1, 2}}, {50});
  const PerfParams fitted = fit(seen);
  EXPECT_NEAR(fitted.alpha_c, 0.1, 1e-6);
  EXPECT_NEAR(fitted.beta_c, 0.002, 4e-5);
}

TEST(Fit, OneDeviceAloneAssumesFreeCommunication) {
  const PerfParams fitted = fit(observe_all(kPlain, {{1, 1}}, {16, 64}));
  EXPECT_NEAR(fitted.compute_s(32), kPlain.compute_s(32), 0.002);
  EXPECT_LT(fitted.sync_s(1, 8), 1e-6);
  EXPECT_LT(fitted.sync_s(4, 8), 1e-6);
  EXPECT_NEAR(fitted.alpha_n, 1.1 * fitted.alpha_r, 1e-12);
  EXPECT_NEAR(fitted.beta_n, 1.1 * fitted.beta_r, 1e-12);
}

TEST(Fit, WithoutSeveralNodesAcrossIsATenthMoreThanWithin) {
  const PerfParams fitted = fit(observe_all(kPlain, {{1, 1}, {1, 2}, {1, 4}}, {16, 64}));
  EXPECT_NEAR(fitted.alpha_r, 0.05, 0.005);
  EXPECT_DOUBLE_EQ(fitted.alpha_n, 1.1 * fitted.alpha_r);
  EXPECT_DOUBLE_EQ(fitted.beta_n, 1.1 * fitted.beta_r);
}

TEST(Fit, WithoutMoreThanTwoDevicesFurtherOnesAreFree) {
  const PerfParams fitted = fit(observe_all(kPlain, {{1, 1}, {1, 2}, {2, 2}}, {16, 64}));
  EXPECT_NEAR(fitted.alpha_r, 0.05, 0.005);
  EXPECT_NEAR(fitted.alpha_n, 0.2, 0.02);
  EXPECT_LT(fitted.beta_r, 1e-7);
  EXPECT_LT(fitted.beta_n, 1e-7);
}

TEST(Fit, WithoutOneNodeWithSeveralDevicesWithinIsFree) {
  const PerfParams fitted = fit(observe_all(kPlain, {{1, 1}, {2, 2}, {4, 8}}, {16, 64}));
  EXPECT_NEAR(fitted.alpha_n, 0.2, 0.02);
  EXPECT_LT(fitted.alpha_r, 1e-7);
}

TEST(Fit, OneObservationIsMet) {
  const Observation seen = observe(kPlain, {2, 8}, 64);
  const PerfParams fitted = fit(std::vector{seen});
  EXPECT_NEAR(fitted.step_s(2, 8, 64) / seen.step_s, 1, 0.02);
}

// The same job in different units, so to speak: milliseconds to hours, micro-batches of tens to
// hundreds of thousands. All true parameters stay above the model's floor of 1e-8.
TEST(Fit, MeetsFastAndSlowJobsAlike) {
  constexpr std::uint64_t kSeed = 7;
  std::cout << "seed " << kSeed << '\n';
  for (const double scale : {1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3}) {
    for (const std::int64_t factor : {1, 30, 1000}) {
      if (scale / static_cast<double>(factor) < 1e-4) continue;
      Random random(kSeed);
      int missed = 0;
      double worst = 0;
      for (int round = 0; round < 20; ++round) {
        auto seen = observe_all(random_params(random), kSeen, kSeenLocals);
        double off = 0;
        for (Observation& o : seen) {
          o.step_s *= scale;
          o.sync_s *= scale;
          o.local *= factor;
        }
        const PerfParams fitted = fit(seen);
        ASSERT_TRUE(finite(fitted));
        for (const Observation& o : seen) {
          const double predicted = fitted.step_s(o.nodes, o.devices, static_cast<double>(o.local));
          off = std::max(off, std::abs(std::log(predicted / o.step_s)));
        }
        missed += off > 0.05 ? 1 : 0;
        worst = std::max(worst, off);
      }
      EXPECT_EQ(missed, 0) << "of 20 with times x " << scale << ", micro-batches x " << factor
                           << "; the worst prediction is off by a factor of " << std::exp(worst);
    }
  }
}

TEST(Fit, ExtremeInputsGiveFiniteParameters) {
  Random random(7);
  for (const double scale : {1e-7, 1e-6, 1e-4, 1.0, 1e4, 1e6}) {
    for (const std::int64_t factor : {0, 1, 1'000'000}) {
      auto seen = observe_all(random_params(random), kSeen, kSeenLocals);
      for (Observation& o : seen) {
        o.step_s *= scale;
        o.sync_s *= scale;
        o.local *= factor;
      }
      for (const std::size_t count : {seen.size(), std::size_t{4}, std::size_t{1}}) {
        const PerfParams fitted = fit(std::span(seen).first(count));
        ASSERT_TRUE(finite(fitted))
            << count << " observations, times x " << scale << ", batches x " << factor;
        ASSERT_TRUE(std::isfinite(fit_error(fitted, seen)));
        ASSERT_TRUE(std::isfinite(fitted.step_s(4, 16, 1e9)));
      }
    }
  }
}

TEST(Fit, SynchronisationThatIsNearlyTheWholeStep) {
  for (const double share : {0.9, 0.999, 1 - 1e-9}) {
    auto seen = observe_all(kPlain, {{1, 2}, {1, 4}, {2, 8}}, {16, 64});
    for (Observation& o : seen) o.sync_s = share * o.step_s;
    const PerfParams fitted = fit(seen);
    ASSERT_TRUE(finite(fitted)) << share;
    // In the model, synchronisation cannot depend on the micro-batch, so it predicts the middle.
    for (const Observation& o : seen) {
      EXPECT_NEAR(fitted.step_s(o.nodes, o.devices, static_cast<double>(o.local)) / o.step_s, 1,
                  0.35)
          << share;
    }
  }
}

// A worker's clock may report a synchronisation as long as its step, or longer. One such report
// must not make the fit ignore all the others.
TEST(Fit, AReportWithoutComputingDoesNotSpoilTheOthers) {
  for (const double share : {1.0, 1.01}) {
    auto seen = observe_all(kPlain, kSeen, kSeenLocals);
    seen[4].sync_s = share * seen[4].step_s;
    const PerfParams fitted = fit(seen);
    ASSERT_TRUE(finite(fitted)) << share;
    EXPECT_NEAR(fitted.step_s(1, 4, 64) / kPlain.step_s(1, 4, 64), 1, 0.1) << share;
    EXPECT_NEAR(fitted.step_s(4, 16, 64) / kPlain.step_s(4, 16, 64), 1, 0.1) << share;
  }
}

TEST(Fit, NoiseInTheTimesIsAveragedOut) {
  constexpr std::uint64_t kSeed = 99;
  std::cout << "seed " << kSeed << '\n';
  Random random(kSeed);
  auto seen = observe_all(kPlain, kSeen, {16, 32, 64, 128, 256});
  for (Observation& o : seen) {
    const double off = std::exp(0.05 * random.normal());
    o.step_s *= off;
    o.sync_s *= off;
  }
  const PerfParams fitted = fit(seen);
  EXPECT_NEAR(fitted.step_s(1, 1, 100) / kPlain.step_s(1, 1, 100), 1, 0.05);
  EXPECT_NEAR(fitted.step_s(3, 12, 100) / kPlain.step_s(3, 12, 100), 1, 0.05);
}

TEST(FitDeathTest, NeedsAnObservation) {
  EXPECT_DEATH(static_cast<void>(fit({})), "needs an observation");
}

}  // namespace
}  // namespace rubato
