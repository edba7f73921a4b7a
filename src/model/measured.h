// A speed model from a table of measured placements.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/delaunay.h"
#include "model/parametric.h"
#include "model/speed.h"

namespace rubato {

// One measured row: devices on each node, micro-batch, times.
struct MeasuredRow {
  std::vector<int> per_node{};  // empty if only `nodes` and `devices` are known
  int nodes = 0;
  int devices = 0;
  std::int64_t local = 0;
  Seconds step_s = 0;
  Seconds sync_s = 0;
};

// Predictions use, in this order: a measured placement (rotations of its nodes are equivalent),
// with linear interpolation between its micro-batches; otherwise linear interpolation over (nodes,
// devices, micro-batch) in the means of all rows; outside the measured range, the parametric model
// fitted to the table. Immutable and safe to share between threads.
class MeasuredSpeed final : public SpeedModel {
 public:
  explicit MeasuredSpeed(const std::vector<MeasuredRow>& rows);
  // Reads `placements` (columns placement, local_bsz, step_time, sync_time; one digit per node)
  // and, unless empty, `scalability` (num_nodes, num_replicas, local_bsz, step_time, sync_time).
  static Result<std::unique_ptr<MeasuredSpeed>> read(const std::string& placements,
                                                     const std::string& scalability);

  StepTime step_time(const Placement& placement, std::int64_t local) const override;
  // The interpolation between placements; null if there were too few rows.
  const ScatteredInterpolator* between_placements() const {
    return scattered_ ? &*scattered_ : nullptr;
  }
  std::int64_t min_local() const { return min_local_; }
  std::int64_t max_local() const { return max_local_; }

 private:
  struct Sample {
    double local;
    Seconds step_s;
    Seconds sync_s;
  };
  StepTime extrapolated(const Placement& placement, double local) const;

  std::map<std::vector<int>, std::vector<Sample>> exact_;  // by smallest rotation, sorted by local
  std::optional<ScatteredInterpolator> scattered_;
  std::vector<Observation> means_;
  std::int64_t min_local_ = 0;
  std::int64_t max_local_ = 0;
  mutable std::once_flag fitted_once_;
  mutable PerfParams fitted_;
};

// The lexicographically smallest rotation of the devices per node.
std::vector<int> smallest_rotation(std::span<const int> per_node);

}  // namespace rubato
