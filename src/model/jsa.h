// The Job Scalability Analyzer (elastic DP, PAPERS section 1). It predicts everything from two
// measurements: a one-device run at a few batch sizes, and the communication latency of the
// cluster.
//
//   t_iter(b, k) = t_proc(ceil(b / k)) + t_comm(weights, k),   t_comm(., 1) = 0
#pragma once

#include <vector>

#include "model/cluster.h"
#include "model/speed.h"

namespace rubato {

// Seconds of a ring all-reduce of `bytes` over `devices` behind one network tier: 2 (k-1) latency +
// 2 (k-1)/k bytes / bandwidth; 0 for one device.
Seconds ring_allreduce_s(double bytes, int devices, const NetworkTier& tier);

class JsaSpeed final : public SpeedModel {
 public:
  struct Processed {
    std::int64_t local = 0;
    Seconds seconds = 0;
  };
  // `processed` are the one-device measurements, at least one. Linear between them, proportional
  // beyond the largest.
  JsaSpeed(std::vector<Processed> processed, double weight_bytes, Network network);

  Seconds processing_s(std::int64_t local) const;
  StepTime step_time(const Placement& placement, std::int64_t local) const override;

 private:
  std::vector<Processed> processed_;
  double weight_bytes_;
  Network network_;
};

}  // namespace rubato
