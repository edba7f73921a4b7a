#include "model/application.h"

#include <gtest/gtest.h>

#include "model/parametric.h"

namespace rubato {
namespace {

// Two recorded batches, three epochs.
Application application() {
  Application::Description d{
      .name = "net",
      .batch = {.initial = 100, .max = 300, .min_local = 10, .max_local = 100},
      .epochs = 3};
  d.records[100] = {
      .progress = {10, 20, 30}, .iteration = {10, 20, 30}, .noise = {{1, 2}, {1, 4}, {2, 6}}};
  d.records[300] = {
      .progress = {9, 21, 33}, .iteration = {4, 9, 15}, .noise = {{3, 6}, {1, 8}, {4, 10}}};
  d.speed = {std::make_shared<ParametricSpeed>(PerfParams{}), nullptr};
  return Application(std::move(d));
}

TEST(Application, AnEpochEndsAtTheSmallestRecordedProgress) {
  const Application app = application();
  EXPECT_EQ(app.progress_after(0), 0);
  EXPECT_EQ(app.progress_after(1), 9);   // of 10 and 9
  EXPECT_EQ(app.progress_after(2), 20);  // of 20 and 21
  EXPECT_EQ(app.progress_after(3), 30);
}

TEST(Application, NoiseIsLinearBetweenRecordedBatches) {
  const Application app = application();
  EXPECT_EQ(app.noise(100, 0).squared_norm, 1);
  EXPECT_EQ(app.noise(100, 0).variance, 2);
  EXPECT_EQ(app.noise(300, 2).squared_norm, 4);
  EXPECT_DOUBLE_EQ(app.noise(200, 0).squared_norm, 2);   // half way from 1 to 3
  EXPECT_DOUBLE_EQ(app.noise(200, 0).variance, 4);       // half way from 2 to 6
  EXPECT_DOUBLE_EQ(app.noise(150, 2).variance, 7);       // 6 + 1/4 x 4
  EXPECT_DOUBLE_EQ(app.noise(100.5, 1).variance, 4.01);  // 4 + 0.5/200 x 4
  EXPECT_DOUBLE_EQ(app.noise(299.5, 1).variance, 7.99);
}

TEST(Application, OutsideTheRecordedBatchesTheNearestIsUsed) {
  const Application app = application();
  EXPECT_EQ(app.noise(1, 1).variance, 4);
  EXPECT_EQ(app.noise(99.5, 1).variance, 4);
  EXPECT_EQ(app.noise(300.5, 1).variance, 8);
  EXPECT_EQ(app.noise(1e9, 1).variance, 8);
  EXPECT_EQ(app.iterations_through(5, 2), 30);
  EXPECT_EQ(app.iterations_through(5000, 2), 15);
}

TEST(Application, IterationsAreLinearBetweenRecordedBatches) {
  const Application app = application();
  EXPECT_EQ(app.iterations_through(100, 0), 10);
  EXPECT_EQ(app.iterations_through(300, 1), 9);
  EXPECT_DOUBLE_EQ(app.iterations_through(200, 0), 7);      // (10 + 4) / 2
  EXPECT_DOUBLE_EQ(app.iterations_through(250, 2), 18.75);  // 30 + 3/4 x (15 - 30)
}

TEST(Application, SaysWhereItRuns) {
  const Application app = application();
  EXPECT_NE(app.speed(DeviceTypeId(0)), nullptr);
  EXPECT_EQ(app.speed(DeviceTypeId(1)), nullptr);
  EXPECT_EQ(app.name(), "net");
  EXPECT_EQ(app.epochs(), 3);
  EXPECT_EQ(app.batch().max, 300);
  EXPECT_FALSE(app.fixed_batch());
  EXPECT_EQ(app.max_devices(), 0);
}

TEST(ApplicationDeathTest, NeedsARecord) {
  EXPECT_DEATH(Application({.name = "x", .epochs = 1}), "has no record");
}

}  // namespace
}  // namespace rubato
