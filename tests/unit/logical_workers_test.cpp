// Logical workers on devices. The comments derive every expected number by hand.
#include "model/logical_workers.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

DeviceCounts counts(int first, int second = 0) {
  DeviceCounts devices;
  devices.of[0] = first;
  devices.of[1] = second;
  return devices;
}

// One worker takes 1 s on type 0 and this long on type 1. A synchronisation takes `sync_s`, and a
// tenth more on type 1.
class TwoTypes final : public SpeedModel {
 public:
  TwoTypes(Seconds second_s, Seconds sync_s) : second_s_(second_s), sync_s_(sync_s) {}
  StepTime step_time(const Placement& placement, std::int64_t local) const override {
    const bool second = placement.type().index() == 1;
    const Seconds sync = placement.devices() > 1 ? sync_s_ * (second ? 1.1 : 1.0) : 0.0;
    const double compute = (second ? second_s_ : 1.0) * static_cast<double>(local) / 8;
    return {.step_s = compute + sync, .sync_s = sync, .confidence = Confidence::kMeasured};
  }

 private:
  Seconds second_s_;
  Seconds sync_s_;
};

// The definition of waste, term by term.
double waste_by_definition(const DeviceCounts& devices, const WorkerSeconds& worker_s, int workers,
                           const WorkerSplit& split) {
  double unused = (split.capacity - workers) / split.round_s;
  double all = 0;
  for (std::size_t type = 0; type < 2; ++type) {
    if (devices.of[type] == 0) continue;
    const double rate = 1 / worker_s[type];
    unused += devices.of[type] * (rate - split.per_device[type] / split.round_s);
    all += devices.of[type] * rate;
  }
  return unused / all;
}

TEST(SplitWorkers, OneTypeEvenly) {
  // 8 workers on 2 devices: 4 on each, 4 s per round, 2 micro-batches per second, nothing wasted.
  const WorkerSplit split = split_workers(counts(2), {1.0}, 8);
  EXPECT_EQ(split.per_device[0], 4);
  EXPECT_EQ(split.capacity, 8);
  EXPECT_DOUBLE_EQ(split.round_s, 4);
  EXPECT_DOUBLE_EQ(split.speed, 2);
  EXPECT_NEAR(split.waste, 0, 1e-12);
}

TEST(SplitWorkers, OneTypeUnevenly) {
  // 8 workers on 3 devices: 3 slots on each, one stays empty. 8 / 3 of 3 possible micro-batches.
  const WorkerSplit split = split_workers(counts(3), {1.0}, 8);
  EXPECT_EQ(split.per_device[0], 3);
  EXPECT_EQ(split.capacity, 9);
  EXPECT_DOUBLE_EQ(split.round_s, 3);
  EXPECT_DOUBLE_EQ(split.speed, 8.0 / 3);
  EXPECT_NEAR(split.waste, 1.0 / 9, 1e-12);
}

TEST(SplitWorkers, TwoTypesBySpeed) {
  // Two devices of 1 s and two of 2 s: 3 workers on a fast one, 1 on a slow one (2 x 3 + 2 x 1 =
  // 8). The slow ones idle for 1 of 3 s: 2 x (1/2 - 1/3) of 2 + 1 micro-batches a second.
  const WorkerSplit split = split_workers(counts(2, 2), {1.0, 2.0}, 8);
  EXPECT_EQ(split.per_device[0], 3);
  EXPECT_EQ(split.per_device[1], 1);
  EXPECT_EQ(split.capacity, 8);
  EXPECT_DOUBLE_EQ(split.round_s, 3);
  EXPECT_DOUBLE_EQ(split.speed, 8.0 / 3);
  EXPECT_NEAR(split.waste, 1.0 / 9, 1e-12);
}

TEST(SplitWorkers, ASlowDeviceMayHaveNothingToDo) {
  // Two workers, two fast devices (1 s) and a slow one (3 s) that would only delay the round.
  const WorkerSplit split = split_workers(counts(2, 1), {1.0, 3.0}, 2);
  EXPECT_EQ(split.per_device[0], 1);
  EXPECT_EQ(split.per_device[1], 0);
  EXPECT_DOUBLE_EQ(split.round_s, 1);
  EXPECT_NEAR(split.waste, 1.0 / 7, 1e-12);  // 1/3 of 2 1/3
}

TEST(SplitWorkers, NoOtherSplitIsFasterAndWasteIsAsDefined) {
  for (int first = 0; first <= 5; ++first) {
    for (int second = 0; second <= 5; ++second) {
      if (first + second == 0) continue;
      for (int workers = 1; workers <= 24; ++workers) {
        const WorkerSeconds worker_s{0.7, 1.9};
        const WorkerSplit split = split_workers(counts(first, second), worker_s, workers);
        double best = 1e9;
        for (int a = 0; a <= workers; ++a) {
          for (int b = 0; b <= workers; ++b) {
            if (first * a + second * b < workers) continue;
            best = std::min(best, std::max(first > 0 ? a * 0.7 : 0, second > 0 ? b * 1.9 : 0));
          }
        }
        ASSERT_NEAR(split.round_s, best, 1e-9) << first << " " << second << " " << workers;
        ASSERT_GE(split.capacity, workers);
        ASSERT_NEAR(split.waste,
                    waste_by_definition(counts(first, second), worker_s, workers, split), 1e-9);
      }
    }
  }
}

TEST(UpdateOfWorkers, AddsTheSlowestSynchronisation) {
  const TwoTypes speed(2.0, 0.5);
  const std::vector<int> nodes{2, 2};
  // Computing 3 s as in TwoTypesBySpeed, synchronising 0.55 s on the slower type.
  const WorkerUpdate update = update_of_workers(speed, counts(2, 2), nodes, 8, 8);
  EXPECT_DOUBLE_EQ(update.update_s, 3.55);
  EXPECT_DOUBLE_EQ(update.sync_s, 0.55);
  // 2 devices compute 3 s, 2 compute 2 s: 10 of 4 x 3.55 device-seconds.
  EXPECT_DOUBLE_EQ(update.busy, 10 / (4 * 3.55));
}

TEST(UpdateOfWorkers, MicroBatchBelongsToTheWorker) {
  const TwoTypes speed(2.0, 0.0);
  const std::vector<int> one{1};
  const std::vector<int> eight{8};
  // 8 workers with 4 samples each (0.5 s): 4 s on one device, 0.5 s on eight.
  EXPECT_DOUBLE_EQ(update_of_workers(speed, counts(1), one, 8, 4).update_s, 4);
  EXPECT_DOUBLE_EQ(update_of_workers(speed, counts(8), eight, 8, 4).update_s, 0.5);
}

}  // namespace
}  // namespace rubato
