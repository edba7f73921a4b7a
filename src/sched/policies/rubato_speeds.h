// Speeds of an application as all its jobs measured them, for the policy `rubato`. What was
// computed once is kept until something new is measured: a decision asks for every size of every
// job.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/job.h"
#include "model/learned.h"

namespace rubato {

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
  // Adaptive jobs with their best batch, others with the one they requested.
  double goodput(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  BestBatch best(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type, int nodes,
                 int devices) const;
  // The batch to use: where little was measured nearby, the fit is given the benefit of the doubt,
  // or the batches that it underrates would never be tried. All jobs learn from one try.
  BatchShape to_try(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type, int nodes,
                    int devices) const;

 private:
  struct Size {
    std::size_t version = 0;          // 0: never asked for
    std::optional<BatchCurve> curve;  // for the limits of the model
    std::optional<BatchCurve> hoped;  // with the benefit of the doubt; made when it is asked for
  };
  Size& size(DeviceTypeId type, int nodes, int devices) const;
  // Fitted / measured seconds of a step, from what was measured nearby.
  double correction(const PerfParams& fitted, DeviceTypeId type, int nodes, int devices,
                    std::int64_t local) const;
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
  GradientNoise noise;
  std::array<std::vector<double>, kMaxDeviceTypes> goodput;  // by devices; below 0: not known

  // Forgets everything unless it was computed from this version with this noise.
  void refresh(std::size_t version_now, const GradientNoise& noise_now);
};

}  // namespace rubato
