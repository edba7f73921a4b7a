// Speeds of an application as measured by all its jobs, for the policy `rubato`. Results are cached
// until something new is measured, because a decision asks for every size of every job.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/job.h"
#include "model/learned.h"
#include "sched/policies/rubato_noise.h"

namespace rubato {

// The batches that a job can have on given devices, and its speed with each.
class BatchTable {
 public:
  struct MicroBatch {
    Seconds step_s = 0;     // including synchronisation
    Seconds compute_s = 0;  // without synchronisation
  };
  // `micro_batch(local)` returns the times of one micro-batch.
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
    double scale = 0;       // relative to the initial batch
    double doublings = 0;   // log2 of `scale`
    double throughput = 0;  // samples per second
  };
  // The batches of a job, split as the job splits them.
  static std::vector<BatchShape> shapes(const BatchLimits& limits, int devices);
  void add(const BatchShape& shape, int devices, const BatchLimits& limits,
           const MicroBatch& seconds);

  std::vector<Option> options_;
};

class SharedSpeeds {
 public:
  // Without `corrected`, speeds come from the fit alone. Without `hopeful`, untried batches get no
  // benefit of the doubt.
  SharedSpeeds(const BatchLimits& limits, bool corrected, bool hopeful)
      : model_(limits), corrected_(corrected), hopeful_(hopeful) {}

  void report(const Observation& observation, const GradientNoise& noise);

  // Grows with everything learned. Results computed from an older version are stale.
  std::size_t version() const { return version_; }
  int max_profiled_devices() const { return model_.max_profiled_devices(); }
  // Whether anything was measured on this type. Otherwise measurements on other types are used.
  bool measured_on(DeviceTypeId type) const { return !model_.observations(type).empty(); }
  // Whether the job's speed differs from other jobs of the application by its noise only.
  bool usual(const JobSpec& spec) const;

  // Goodput of a job of this application: the fit, corrected by measurements near this size.
  // Adaptive jobs use their best batch, with a little benefit of the doubt; others use the batch
  // they requested.
  double goodput(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  BestBatch best(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  // The batch to use. With few measurements nearby, the fit gets the benefit of the doubt.
  // Otherwise, batches that it underestimates would never be tried. All jobs learn from one trial.
  BatchShape to_try(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type, int nodes,
                    int devices) const;

 private:
  struct Size {
    std::size_t version = 0;            // 0: never requested
    std::optional<BatchTable> batches;  // for the limits of the model
    std::optional<BatchTable> hoped;    // with the benefit of the doubt
  };
  Size& size(DeviceTypeId type, int nodes, int devices) const;
  // The fit, corrected by nearby measurements.
  BatchTable::MicroBatch micro_batch(const PerfParams& fitted, DeviceTypeId type, int nodes,
                                     int devices, std::int64_t local) const;
  // Grows with the distance to the nearest measurement.
  double hope(DeviceTypeId type, int nodes, int devices, std::int64_t local) const;
  // The fit of this type. If its synchronisation is not known, it is taken from another type.
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

// Goodputs on packed devices computed so far, for jobs with the same noise.
struct SpeedMemo {
  std::size_t version = 0;
  NoiseCurve noise;
  std::array<std::vector<double>, kMaxDeviceTypes> goodput;  // by devices; negative: not computed
                                                             // yet

  // Clears the memo unless it was computed from this version with this noise.
  void refresh(std::size_t version_now, const NoiseCurve& noise_now);
};

}  // namespace rubato
