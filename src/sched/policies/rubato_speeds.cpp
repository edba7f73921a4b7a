#include "sched/policies/rubato_speeds.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

// Weights of an observation at a distance d (in doublings of devices and of the micro-batch):
// 1 / (kSame + d^2); and of the fit itself.
constexpr double kSame = 0.01;
constexpr double kTrustInFit = 0.5;
// How much faster than its fit a batch is hoped to be, in logarithms per doubling of the
// micro-batch (and half as much per doubling of the devices), up to one doubling away from what was
// measured.
constexpr double kHope = 0.2;
constexpr double kHopePerDevices = 0.5;

// One device, one node and several nodes are three different things.
int kind(int nodes, int devices) { return devices == 1 ? 0 : nodes == 1 ? 1 : 2; }

}  // namespace

void SharedSpeeds::report(const Observation& observation, const GradientNoise& noise) {
  const std::size_t before = model_.observations(observation.type).size();
  model_.report(observation, noise);
  if (model_.observations(observation.type).size() > before) ++version_;
}

bool SharedSpeeds::usual(const JobSpec& spec) const {
  const BatchLimits& own = spec.batch;
  const BatchLimits& usual = model_.limits();
  return spec.mode == ElasticMode::kAdaptive && own.initial == usual.initial &&
         own.max == usual.max && own.min_local == usual.min_local &&
         own.max_local == usual.max_local;
}

const PerfParams& SharedSpeeds::params(DeviceTypeId type) const {
  Fit& fit = fits_[type.index()];
  if (fit.version != version_) fit = {.version = version_, .params = combined_fit(type)};
  return fit.params;
}

PerfParams SharedSpeeds::combined_fit(DeviceTypeId type) const {
  PerfParams params = model_.params(type);
  if (!measured_on(type)) return params;
  // Observations on several devices: within a node, across nodes.
  const auto count = [&](DeviceTypeId of, bool across) {
    const auto seen = model_.observations(of);
    return std::count_if(seen.begin(), seen.end(), [&](const Observation& o) {
      return o.devices > 1 && (o.nodes > 1) == across;
    });
  };
  for (const bool across : {false, true}) {
    if (count(type, across) > 0) continue;
    DeviceTypeId donor;
    for (std::size_t t = 0; t < kMaxDeviceTypes; ++t) {
      const DeviceTypeId other(t);
      if (count(other, across) > 0 &&
          (!donor.valid() || count(other, across) > count(donor, across))) {
        donor = other;
      }
    }
    if (!donor.valid()) continue;
    const PerfParams& known = model_.params(donor);
    if (across) {
      params.alpha_n = known.alpha_n;
      params.beta_n = known.beta_n;
    } else {
      params.alpha_r = known.alpha_r;
      params.beta_r = known.beta_r;
    }
    if (count(type, false) + count(type, true) == 0) params.gamma = known.gamma;
  }
  return params;
}

double SharedSpeeds::correction(const PerfParams& fitted, DeviceTypeId type, int nodes, int devices,
                                std::int64_t local) const {
  if (!corrected_) return 1;
  double weights = kTrustInFit;
  double sum = 0;
  for (const Observation& o : model_.observations(type)) {
    if (kind(o.nodes, o.devices) != kind(nodes, devices)) continue;
    const double wider = std::log2(static_cast<double>(o.devices) / devices);
    const double larger = std::log2(static_cast<double>(o.local) / static_cast<double>(local));
    const double weight = 1 / (kSame + wider * wider + larger * larger);
    const double off = fitted.step_s(o.nodes, o.devices, static_cast<double>(o.local)) / o.step_s;
    weights += weight;
    sum += weight * std::log(off);
  }
  return std::exp(sum / weights);
}

double SharedSpeeds::hope(DeviceTypeId type, int nodes, int devices, std::int64_t local) const {
  double nearest = 1;
  for (const Observation& o : model_.observations(type)) {
    if (kind(o.nodes, o.devices) != kind(nodes, devices)) continue;
    const double wider = kHopePerDevices * std::log2(static_cast<double>(o.devices) / devices);
    const double larger = std::log2(static_cast<double>(o.local) / static_cast<double>(local));
    nearest = std::min(nearest, std::hypot(wider, larger));
  }
  return std::exp(kHope * nearest);
}

SharedSpeeds::Size& SharedSpeeds::size(DeviceTypeId type, int nodes, int devices) const {
  std::vector<Size>& sizes = sizes_[type.index()];
  const std::size_t slot = 2 * static_cast<std::size_t>(devices) + (nodes > 1 ? 1 : 0);
  if (slot >= sizes.size()) sizes.resize(slot + 1);
  Size& size = sizes[slot];
  if (size.version == version_) return size;
  const PerfParams& fitted = params(type);
  size.curve.emplace(fitted, model_.limits(), nodes, devices);
  size.curve->correct(
      [&](std::int64_t local) { return correction(fitted, type, nodes, devices, local); });
  size.hoped.reset();
  size.version = version_;
  return size;
}

BestBatch SharedSpeeds::best(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type,
                             int nodes, int devices) const {
  if (!usual(spec)) return best_batch(params(type), noise, spec.batch, nodes, devices);
  return size(type, nodes, devices).curve->best(noise);
}

BatchShape SharedSpeeds::to_try(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type,
                                int nodes, int devices) const {
  if (!usual(spec) || !hopeful_) return best(spec, noise, type, nodes, devices).shape;
  Size& here = size(type, nodes, devices);
  if (!here.hoped) {
    here.hoped = here.curve;
    here.hoped->correct([&](std::int64_t local) { return hope(type, nodes, devices, local); });
  }
  return here.hoped->best(noise).shape;
}

double SharedSpeeds::goodput(const JobSpec& spec, const GradientNoise& noise, DeviceTypeId type,
                             int nodes, int devices) const {
  if (spec.mode == ElasticMode::kAdaptive) return best(spec, noise, type, nodes, devices).goodput;
  const BatchShape shape = split_batch(spec.requested_batch, devices, spec.batch);
  if (shape.local < 1) return 0;
  const PerfParams& fitted = params(type);
  const auto local = static_cast<double>(shape.local);
  const double seconds =
      fitted.step_s(nodes, devices, local) + shape.accumulation * fitted.compute_s(local);
  const auto total = static_cast<double>(shape.total(devices));
  return total / seconds * correction(fitted, type, nodes, devices, shape.local) *
         statistical_efficiency(noise, total, static_cast<double>(spec.batch.initial));
}

void SpeedMemo::refresh(std::size_t version_now, const GradientNoise& noise_now) {
  if (version == version_now && noise.squared_norm == noise_now.squared_norm &&
      noise.variance == noise_now.variance) {
    return;
  }
  version = version_now;
  noise = noise_now;
  for (std::vector<double>& type : goodput) type.clear();
}

}  // namespace rubato
