#include "model/logical_workers.h"

#include <algorithm>

#include "base/check.h"

namespace rubato {

WorkerSplit split_workers(const DeviceCounts& devices, const WorkerSeconds& worker_s, int workers) {
  WorkerSplit split;
  double full_speed = 0;
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (devices.of[type] > 0) full_speed += devices.of[type] / worker_s[type];
  }
  RUBATO_CHECK(full_speed > 0 && workers > 0, "logical workers without devices");
  // Add one worker per device to the type where the round then ends soonest, until all workers fit.
  // No smaller round_s has room for all.
  while (split.capacity < workers) {
    std::size_t best = kMaxDeviceTypes;
    Seconds best_s = 0;
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      if (devices.of[type] == 0) continue;
      const Seconds round_s = (split.per_device[type] + 1) * worker_s[type];
      if (best == kMaxDeviceTypes || round_s < best_s) {
        best = type;
        best_s = round_s;
      }
    }
    ++split.per_device[best];
    split.capacity += devices.of[best];
    split.round_s = std::max(split.round_s, best_s);
  }
  split.speed = workers / split.round_s;
  // Equals the sum in the definition: speed that devices do not use at all, and speed used for no
  // worker.
  split.waste = 1.0 - split.speed / full_speed;
  return split;
}

WorkerSeconds worker_seconds(const SpeedModel& speed, const DeviceCounts& devices,
                             std::int64_t local) {
  WorkerSeconds seconds{};
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (devices.of[type] == 0) continue;
    const StepTime alone = speed.step_time(Placement(DeviceTypeId(type), {1}), local);
    seconds[type] = alone.step_s - alone.sync_s;
  }
  return seconds;
}

WorkerUpdate update_of_workers(const SpeedModel& speed, const DeviceCounts& devices,
                               std::span<const int> per_node, int workers, std::int64_t local) {
  const WorkerSeconds worker_s = worker_seconds(speed, devices, local);
  const WorkerSplit split = split_workers(devices, worker_s, workers);
  WorkerUpdate update;
  double busy_s = 0;  // over all devices, if every slot for a worker were taken
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (devices.of[type] == 0) continue;
    const Placement all(DeviceTypeId(type), {per_node.begin(), per_node.end()});
    update.sync_s = std::max(update.sync_s, speed.step_time(all, local).sync_s);
    busy_s += devices.of[type] * split.per_device[type] * worker_s[type];
  }
  update.update_s = split.round_s + update.sync_s;
  update.busy = busy_s * workers / split.capacity / devices.total() / update.update_s;
  return update;
}

}  // namespace rubato
