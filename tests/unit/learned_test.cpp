// What a job has measured, and how those who copy it learn of every change.
#include "model/learned.h"

#include <gtest/gtest.h>

#include "sched/policies/rubato_speeds.h"

namespace rubato {
namespace {

constexpr BatchLimits kLearnedLimits{.initial = 8, .max = 8, .min_local = 1, .max_local = 8};
constexpr DeviceTypeId kFirst(std::size_t{0});

Observation seen(int devices, Seconds step_s, int measurements = 1) {
  return {.type = kFirst,
          .nodes = 1,
          .devices = devices,
          .local = 8 / devices,
          .step_s = step_s,
          .sync_s = 0,
          .measurements = measurements};
}

std::vector<int> told(const LearnedModel& model, std::size_t since) {
  std::vector<int> devices;
  model.tell_since(since, kFirst, [&](const Observation& o) { devices.push_back(o.devices); });
  return devices;
}

TEST(LearnedModel, TellsEveryNewConfigurationWhateverItsSize) {
  LearnedModel model(kLearnedLimits);
  model.report(seen(1, 4), {});
  model.report(seen(4, 1), {});
  EXPECT_EQ(told(model, 0), (std::vector<int>{1, 4}));
  const std::size_t then = model.revision();
  EXPECT_TRUE(told(model, then).empty());
  model.report(seen(2, 2), {});
  EXPECT_EQ(told(model, then), std::vector<int>{2});
}

TEST(LearnedModel, AnAverageReplacesWhatIsKnownAndASingleMeasurementDoesNot) {
  LearnedModel model(kLearnedLimits);
  model.report(seen(1, 40), {});  // with its warm-up
  const std::size_t then = model.revision();
  model.report(seen(1, 5), {});
  EXPECT_EQ(model.revision(), then);
  EXPECT_DOUBLE_EQ(model.observations(kFirst)[0].step_s, 40);
  const double slow = model.best(kFirst, 1, 1).goodput;
  model.report(seen(1, 4, 5), {});
  EXPECT_EQ(told(model, then), std::vector<int>{1});
  ASSERT_EQ(model.observations(kFirst).size(), 1U);
  EXPECT_DOUBLE_EQ(model.observations(kFirst)[0].step_s, 4);
  EXPECT_GT(model.best(kFirst, 1, 1).goodput, 5 * slow) << "what was computed from it is stale";
  const std::size_t now = model.revision();
  model.report(seen(1, 4, 5), {});
  EXPECT_EQ(model.revision(), now) << "the same again is no news";
}

TEST(LearnedModel, ForgettingItsMeasurementsIsAChange) {
  LearnedModel model(kLearnedLimits);
  model.report(seen(1, 4), {});
  const std::size_t then = model.revision();
  model.restart(kLearnedLimits);
  EXPECT_TRUE(model.empty());
  model.report(seen(2, 2), {});
  EXPECT_GT(model.revision(), then);
  EXPECT_EQ(told(model, then), std::vector<int>{2});
}

TEST(SharedSpeeds, FollowAMeasurementThatIsReplaced) {
  JobSpec spec;
  spec.batch = kLearnedLimits;
  spec.requested_batch = 8;
  SharedSpeeds speeds(kLearnedLimits, true, true);
  const NoiseCurve noise = NoiseCurve::flat(0);
  speeds.report(seen(1, 40), {});
  const std::size_t version = speeds.version();
  const double slow = speeds.goodput(spec, noise, kFirst, 1, 1);
  speeds.report(seen(1, 4, 5), {});
  EXPECT_GT(speeds.version(), version);
  EXPECT_GT(speeds.goodput(spec, noise, kFirst, 1, 1), 5 * slow);
}

}  // namespace
}  // namespace rubato
