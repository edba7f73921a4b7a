#include "model/measured.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/sched_helpers.h"

namespace rubato {
namespace {

using Ints = std::vector<int>;

MeasuredRow row(Ints per_node, std::int64_t local, double step, double sync) {
  MeasuredRow made{.per_node = std::move(per_node), .local = local, .step_s = step, .sync_s = sync};
  made.nodes = static_cast<int>(made.per_node.size());
  for (const int devices : made.per_node) made.devices += devices;
  return made;
}

TEST(SmallestRotation, TurnsButDoesNotReorder) {
  EXPECT_EQ(smallest_rotation(Ints{}), Ints{});
  EXPECT_EQ(smallest_rotation(Ints{3}), Ints{3});
  EXPECT_EQ(smallest_rotation(Ints{2, 1}), (Ints{1, 2}));
  EXPECT_EQ(smallest_rotation(Ints{4, 4, 2}), (Ints{2, 4, 4}));
  EXPECT_EQ(smallest_rotation(Ints{1, 3, 2}), (Ints{1, 3, 2}));  // not 1, 2, 3: that is a mirror
  EXPECT_EQ(smallest_rotation(Ints{2, 1, 1, 3}), (Ints{1, 1, 3, 2}));
  EXPECT_EQ(smallest_rotation(Ints{1, 2, 1, 1}), (Ints{1, 1, 1, 2}));
}

TEST(Measured, AnswersAMeasuredConfigurationAsMeasured) {
  const MeasuredSpeed speed({row({2}, 16, 0.3, 0.1), row({2}, 32, 0.5, 0.2), row({1}, 16, 0.2, 0)});
  const StepTime time = speed.step_time(Placement(kType, {2}), 32);
  EXPECT_EQ(time.step_s, 0.5);
  EXPECT_EQ(time.sync_s, 0.2);
  EXPECT_EQ(time.confidence, Confidence::kMeasured);
  EXPECT_EQ(speed.min_local(), 16);
  EXPECT_EQ(speed.max_local(), 32);
}

TEST(Measured, IsLinearBetweenMicroBatches) {
  // The rows need not be sorted.
  const MeasuredSpeed speed({row({2}, 32, 0.5, 0.2), row({2}, 16, 0.3, 0.1), row({2}, 64, 1, 0.2)});
  const StepTime time = speed.step_time(Placement(kType, {2}), 20);
  EXPECT_DOUBLE_EQ(time.step_s, 0.35);   // 0.3 + 4/16 x 0.2
  EXPECT_DOUBLE_EQ(time.sync_s, 0.125);  // 0.1 + 4/16 x 0.1
  EXPECT_EQ(time.confidence, Confidence::kInterpolated);
  EXPECT_DOUBLE_EQ(speed.step_time(Placement(kType, {2}), 48).step_s, 0.75);
}

TEST(Measured, RotationsOfANodeOrderAreTheSame) {
  const MeasuredSpeed speed({row({1, 3, 2}, 16, 0.3, 0.1), row({1, 3, 2}, 32, 0.5, 0.1)});
  for (const Ints& turned : {Ints{1, 3, 2}, Ints{3, 2, 1}, Ints{2, 1, 3}}) {
    const StepTime time = speed.step_time(Placement(kType, turned), 16);
    EXPECT_EQ(time.step_s, 0.3);
    EXPECT_EQ(time.confidence, Confidence::kMeasured);
  }
  // A different order is a different placement.
  EXPECT_NE(speed.step_time(Placement(kType, {1, 2, 3}), 16).confidence, Confidence::kMeasured);
}

// step = 0.01 nodes + 0.02 devices + 0.001 local, sync = step / 10 on a grid of shapes.
std::vector<MeasuredRow> linear_rows() {
  std::vector<MeasuredRow> rows;
  for (const Ints& shape : {Ints{1}, Ints{2}, Ints{4}, Ints{8}, Ints{1, 1}, Ints{2, 2}, Ints{4, 4},
                            Ints{1, 1, 1}, Ints{2, 3, 3}}) {
    for (const std::int64_t local : {16, 64}) {
      MeasuredRow made = row(shape, local, 0, 0);
      made.step_s =
          0.01 * made.nodes + 0.02 * made.devices + 0.001 * static_cast<double>(made.local);
      made.sync_s = made.step_s / 10;
      rows.push_back(made);
    }
  }
  return rows;
}

TEST(Measured, BetweenPlacementsLinearDataIsReproduced) {
  const MeasuredSpeed speed(linear_rows());
  ASSERT_NE(speed.between_placements(), nullptr);
  const auto expect = [&](const Ints& shape, std::int64_t local, double step) {
    const StepTime time = speed.step_time(Placement(kType, shape), local);
    EXPECT_NEAR(time.step_s, step, 1e-9);
    EXPECT_NEAR(time.sync_s, step / 10, 1e-9);
    EXPECT_EQ(time.confidence, Confidence::kInterpolated);
  };
  expect({3}, 16, 0.086);        // 0.01 + 0.06 + 0.016
  expect({3}, 40, 0.11);         // 0.01 + 0.06 + 0.04
  expect({2, 1}, 40, 0.12);      // 0.02 + 0.06 + 0.04
  expect({3, 3}, 32, 0.172);     // 0.02 + 0.12 + 0.032
  expect({2, 2, 2}, 64, 0.214);  // 0.03 + 0.12 + 0.064
}

TEST(Measured, OutsideOfTheTableTheFittedModelAnswers) {
  const MeasuredSpeed speed(linear_rows());
  const auto at = [&](const Ints& shape, std::int64_t local) {
    return speed.step_time(Placement(kType, shape), local);
  };
  for (const StepTime& time : {at({8, 8}, 64), at({4, 4, 4, 4}, 32), at({3}, 128), at({3}, 8)}) {
    EXPECT_EQ(time.confidence, Confidence::kExtrapolated);
    EXPECT_GT(time.step_s, 0);
    EXPECT_GE(time.sync_s, 0);
    EXPECT_LE(time.sync_s, time.step_s);
  }
  // A measured placement beyond its micro-batches: close to the linear continuation.
  const StepTime beyond = at({4}, 80);
  EXPECT_EQ(beyond.confidence, Confidence::kExtrapolated);
  EXPECT_NEAR(beyond.step_s, 0.01 + 0.08 + 0.08, 0.05);
}

TEST(Measured, RowsWithoutNodesOnlyFillTheSpaceBetween) {
  std::vector<MeasuredRow> rows = linear_rows();
  for (const std::int64_t local : {16, 64}) {
    const double step = 0.01 * 4 + 0.02 * 16 + 0.001 * static_cast<double>(local);
    rows.push_back(
        {.nodes = 4, .devices = 16, .local = local, .step_s = step, .sync_s = step / 10});
  }
  rows.push_back({.nodes = 4, .devices = 16, .local = 1024, .step_s = 1.384, .sync_s = 0.1384});
  const MeasuredSpeed speed(rows);
  EXPECT_EQ(speed.max_local(), 64);  // the job's limits come from the placements alone
  const StepTime time = speed.step_time(Placement(kType, {4, 4, 4, 4}), 64);
  EXPECT_NEAR(time.step_s, 0.424, 1e-9);
  EXPECT_EQ(time.confidence, Confidence::kInterpolated);
}

TEST(Measured, PlacementsOfOneShapeAreAveragedForTheSpaceBetween) {
  // {1, 1, 4} and {1, 2, 3} are both (3 nodes, 6 devices). Each keeps its own row; a third
  // placement of the same shape gets their mean.
  std::vector<MeasuredRow> rows{row({1, 1, 4}, 16, 0.2, 0.02), row({1, 2, 3}, 16, 0.4, 0.04)};
  for (const MeasuredRow& other : linear_rows()) rows.push_back(other);
  const MeasuredSpeed speed(rows);
  EXPECT_EQ(speed.step_time(Placement(kType, {4, 1, 1}), 16).step_s, 0.2);
  EXPECT_EQ(speed.step_time(Placement(kType, {2, 3, 1}), 16).step_s, 0.4);
  const StepTime third = speed.step_time(Placement(kType, {2, 2, 2}), 16);  // (3, 6) too
  EXPECT_NEAR(third.step_s, 0.3, 1e-9);
  EXPECT_NEAR(third.sync_s, 0.03, 1e-9);
}

TEST(Measured, TooFewRowsForTheSpaceBetweenStillAnswer) {
  const MeasuredSpeed speed({row({1}, 16, 0.2, 0)});
  EXPECT_EQ(speed.between_placements(), nullptr);
  const StepTime time = speed.step_time(Placement(kType, {2}), 16);
  EXPECT_EQ(time.confidence, Confidence::kExtrapolated);
  EXPECT_NEAR(time.step_s, 0.2, 0.01);  // optimistic: synchronisation is free
}

}  // namespace
}  // namespace rubato
