// What several tests of the scheduler need.
#pragma once

#include "model/cluster.h"
#include "sched/allocation.h"
#include "sched/scheduler.h"

namespace rubato {

inline constexpr DeviceTypeId kType{0};  // of a cluster with one type of device

class FakeClock final : public Clock {
 public:
  Seconds now_s() const override { return now; }
  Seconds now = 0;
};

inline NodeShare at(std::int32_t node, int devices) { return {NodeId(node), devices}; }

}  // namespace rubato
