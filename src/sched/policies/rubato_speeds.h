// Speeds of an application as all its jobs measured them, for the policy `rubato`. What was
// computed once is kept until something new is measured: a decision asks for every size of every
// job.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/job.h"
#include "model/learned.h"
#include "sched/policies/rubato_noise.h"

namespace rubato {

// The batches that a job can have on certain devices, and how fast it is with each.
class BatchTable {
 public:
  struct MicroBatch {
    Seconds step_s = 0;     // with synchronisation
    Seconds compute_s = 0;  // without
  };
  // `micro_batch(local)` says how long one takes.
  template <typename MicroBatchOf>
  BatchTable(const BatchLimits& limits, int devices, MicroBatchOf micro_batch) {
    for (const BatchShape& shape : shapes(limits, devices)) {
      add(shape, devices, limits, micro_batch(shape.local));
    }
  }

  BestBatch best(const NoiseCurve& noise) const;
  // The same with the speed at each micro-batch multiplied by `factor(local)`.
  template <typename Factor>
  BatchTable faster(Factor factor) const {
    BatchTable result = *this;
    for (Option& option : result.options_) option.throughput *= factor(option.shape.local);
    return result;
  }

 private:
  struct Option {
    BatchShape shape;
    double scale = 0;       // of the initial batch,
    double doublings = 0;   // and its logarithm
    double throughput = 0;  // samples per second
  };
  // As a job splits the batches that it is given.
  static std::vector<BatchShape> shapes(const BatchLimits& limits, int devices);
  void add(const BatchShape& shape, int devices, const BatchLimits& limits,
           const MicroBatch& seconds);

  std::vector<Option> options_;
};

class SharedSpeeds {
 public:
  // Without `corrected`, speeds are those of the fit alone; without `hopeful`, so are the batches.
  SharedSpeeds(const BatchLimits& limits, bool corrected, bool hopeful)
      : model_(limits), corrected_(corrected), hopeful_(hopeful) {}

  void report(const Observation& observation, const GradientNoise& noise);

  // Grows with everything that is learned: what was computed from an older version is stale.
  std::size_t version() const { return version_; }
  int max_profiled_devices() const { return model_.max_profiled_devices(); }
  // Whether anything was measured on this type; otherwise what was measured on others is used.
  bool measured_on(DeviceTypeId type) const { return !model_.observations(type).empty(); }
  // Whether the job differs from others of the application by its noise only, as far as speed goes.
  bool usual(const JobSpec& spec) const;

  // Of a job of this application: the fit, corrected by what was measured where this size was.
  // Adaptive jobs with their best batch and a little of the benefit of the doubt, others with the
  // batch they requested.
  double goodput(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  BestBatch best(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  // The batch to use: where little was measured nearby, the fit is given the benefit of the doubt,
  // or the batches that it underrates would never be tried. All jobs learn from one try.
  BatchShape to_try(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                    int devices) const;

 private:
  struct Size {
    std::size_t version = 0;            // 0: never asked for
    std::optional<BatchTable> batches;  // for the limits of the model
    std::optional<BatchTable> hoped;    // with the benefit of the doubt
  };
  Size& size(DeviceTypeId type, int nodes, int devices) const;
  // The fit, corrected by what was measured nearby.
  BatchTable::MicroBatch micro_batch(const PerfParams& fitted, DeviceTypeId type, int nodes,
                                     int devices, std::int64_t local) const;
  // Grows with the distance to what was measured.
  double hope(DeviceTypeId type, int nodes, int devices, std::int64_t local) const;
  // The fit of this type; how devices synchronise is taken from another one where it is not known.
  const PerfParams& params(DeviceTypeId type) const;
  PerfParams combined_fit(DeviceTypeId type) const;

  LearnedModel model_;
  bool corrected_;
  bool hopeful_;
  std::size_t version_ = 1;
  // By type and 2 * devices + (nodes > 1): the model depends on nothing else of a placement.
  mutable std::array<std::vector<Size>, kMaxDeviceTypes> sizes_;
  struct Fit {
    std::size_t version = 0;
    PerfParams params;
  };
  mutable std::array<Fit, kMaxDeviceTypes> fits_;
};

// Goodputs on packed devices that were asked for, of jobs with the same noise.
struct SpeedMemo {
  std::size_t version = 0;
  NoiseCurve noise;
  std::array<std::vector<double>, kMaxDeviceTypes> goodput;  // by devices; below 0: not known

  // Forgets everything unless it was computed from this version with this noise.
  void refresh(std::size_t version_now, const NoiseCurve& noise_now);
};

}  // namespace rubato
