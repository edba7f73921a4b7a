// A job as its owner describes it. Nothing here says how long it will run; what a recorded workload
// knows about that stays in the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "model/batch.h"

namespace rubato {

enum class ElasticMode {
  kConsistent,  // any device count in the range, fixed global batch (the default)
  kAdaptive,    // both device count and batch may change
  kRigid,       // exactly the requested devices
};
std::string_view to_string(ElasticMode mode);
std::optional<ElasticMode> parse_elastic_mode(std::string_view text);

// Why a job cannot use more than its max_devices.
enum class DeviceLimit {
  kOwner,           // its owner's range
  kMeasured,        // more were measured to be slower
  kLogicalWorkers,  // it has no more logical workers
};

struct JobSpec {
  JobId id;
  std::string name;
  std::string tenant = "default";
  int priority = 0;  // larger is more urgent
  ElasticMode mode = ElasticMode::kConsistent;
  Seconds submit_s = 0;

  int min_devices = 1;
  int max_devices = 1;
  int requested_devices = 1;          // what a scheduler without resizing grants
  std::uint32_t allowed_types = ~0U;  // one bit per DeviceTypeId
  bool power_of_two_sizes = false;    // runs on 1, 2, 4, ... devices only
  bool one_node = false;              // its devices must be on the same node
  // Stopping it loses everything it has done: it keeps no checkpoints.
  bool starts_over = false;
  // Exactly so many, before any job without a pin (sched/pinned_policy.h); 0: the policy decides.
  int pinned_devices = 0;
  DeviceLimit limit = DeviceLimit::kOwner;  // where max_devices comes from

  BatchLimits batch;
  int epochs = 0;                    // how long its owner wants to train; 0: not given
  std::int64_t requested_batch = 0;  // the total batch of a consistent or rigid job

  // Consistent jobs only: the job trains with this many logical workers on any devices, each with
  // an equal share of the requested batch (model/logical_workers.h). 0: the batch is split by
  // devices.
  int logical_workers = 0;
  // The job's workers give the same bits on every device type, so it may use several types at once.
  bool mixes_types = false;

  std::string application;               // empty: unknown
  std::optional<Seconds> resize_cost_s;  // overrides the cluster's default

  // The fewest devices on which it can run.
  int smallest() const { return mode == ElasticMode::kRigid ? requested_devices : min_devices; }
  // Narrows the range of a job with power_of_two_sizes to powers of two. A range without one stays
  // as it is, and so does a rigid job.
  void round_to_sizes();
  bool allows(DeviceTypeId type) const { return (allowed_types >> type.value & 1U) != 0; }
  // Micro-batch of one logical worker.
  std::int64_t worker_batch() const {
    return (requested_batch + logical_workers - 1) / logical_workers;
  }

  // An update of a job whose batch is fixed, on so many devices of one type.
  struct FixedUpdate {
    BatchShape shape{};  // of the busiest device; 0 local: it cannot train on so many
    double batch = 0;    // of all devices
  };
  FixedUpdate fixed_update(int devices) const;
};

}  // namespace rubato
