// Logical workers (EasyScaleThreads, PAPERS section 5): a job trains with a fixed number of them on
// any devices. A device hosts several in turn, and the update waits for the slowest device. Local
// batch and reduction order belong to the worker, so results do not depend on the devices.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/cluster.h"
#include "model/speed.h"

namespace rubato {

// Seconds that one device of each type needs for one worker's micro-batch. Used only for types with
// devices, and above 0 there.
using WorkerSeconds = std::array<Seconds, kMaxDeviceTypes>;

// How many workers each device hosts. By type: N devices, A workers on each, and C = 1 / (seconds
// per worker).
struct WorkerSplit {
  std::array<int, kMaxDeviceTypes> per_device{};  // A; 0: devices of this type are idle
  int capacity = 0;                               // sum N A, at least the number of workers
  Seconds round_s = 0;                            // f = max A / C: one micro-batch of every worker
  double speed = 0;                               // workers / f: micro-batches per second
  // Share of the devices' speed that is not used:
  // [sum N (C - A / f) + (capacity - workers) / f] / sum N C.
  double waste = 0;
};

// The split with the smallest round_s. There must be at least one device and one worker. O(workers
// x types).
WorkerSplit split_workers(const DeviceCounts& devices, const WorkerSeconds& worker_s, int workers);

// One optimizer update of all workers.
struct WorkerUpdate {
  Seconds update_s = 0;  // computing and synchronising
  Seconds sync_s = 0;    // synchronising, included in update_s
  double busy = 0;       // share of the devices' time spent computing
};

// Seconds of one worker's micro-batch on each of these types, from the step time of one device.
WorkerSeconds worker_seconds(const SpeedModel& speed, const DeviceCounts& devices,
                             std::int64_t local);

// An update on devices of one or several types, with `per_node` of them on each node. After
// computing as in split_workers(), all devices synchronise once. That takes the time that the speed
// model predicts for as many devices on as many nodes, of the slowest type among them.
WorkerUpdate update_of_workers(const SpeedModel& speed, const DeviceCounts& devices,
                               std::span<const int> per_node, int workers, std::int64_t local);

}  // namespace rubato
