#include "sched/policies/rubato_speeds.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

// Weight of an observation at a distance d: 1 / (kSame + d^2)^2. d is in doublings of the
// micro-batch; a doubling of the devices counts twice. kTrustInFit is the weight of the fit itself.
constexpr double kSame = 0.005;
constexpr double kDevicesAreFar = 4;  // squared
constexpr double kTrustInFit = 10;
// How much faster than its fit a batch is hoped to be, in logarithms per doubling of the
// micro-batch (half as much per doubling of the devices), up to one doubling away from the nearest
// measurement.
constexpr double kHope = 0.2;
constexpr double kHopePerDevices = 0.5;
// How much of that hope counts when choosing a job's size, not only its batch.
constexpr double kHopeForSizes = 0.25;
constexpr int kBatches = 50;

// One device, one node and several nodes behave differently.
int kind(int nodes, int devices) { return devices == 1 ? 0 : nodes == 1 ? 1 : 2; }

// Weighted mean logarithm of fitted / measured. The fit itself counts as error-free.
class MeanError {
 public:
  void add(double wider, double larger, double fitted, double measured) {
    const double distance = kSame + kDevicesAreFar * wider * wider + larger * larger;
    const double weight = 1 / (distance * distance);
    weights_ += weight;
    sum_ += weight * std::log(fitted / measured);
  }
  double factor() const { return std::exp(sum_ / weights_); }

 private:
  double weights_ = kTrustInFit;
  double sum_ = 0;
};

}  // namespace

std::vector<BatchShape> BatchTable::shapes(const BatchLimits& limits, int devices) {
  std::vector<BatchShape> result;
  const auto smallest = static_cast<double>(std::max(limits.initial, limits.min_local * devices));
  const double range = static_cast<double>(limits.max) / smallest;
  if (range < 1) return result;
  for (int i = 0; i < kBatches; ++i) {
    const double total = smallest * std::pow(range, static_cast<double>(i) / (kBatches - 1));
    const BatchShape shape = split_batch(std::llround(total), devices, limits);
    if (shape.local < limits.min_local) continue;
    if (result.empty() || !(shape == result.back())) result.push_back(shape);
  }
  return result;
}

void BatchTable::add(const BatchShape& shape, int devices, const BatchLimits& limits,
                     const MicroBatch& seconds) {
  const auto total = static_cast<double>(shape.total(devices));
  const double scale = total / static_cast<double>(limits.initial);
  options_.push_back(
      {.shape = shape,
       .scale = scale,
       .doublings = std::log2(scale),
       .throughput = total / (shape.accumulation * seconds.compute_s + seconds.step_s)});
}

BestBatch BatchTable::best(const NoiseCurve& noise) const {
  BestBatch best;
  for (const Option& option : options_) {
    const double goodput = option.throughput * noise.efficiency(option.scale, option.doublings);
    if (goodput > best.goodput) best = {.goodput = goodput, .shape = option.shape};
  }
  return best;
}

void SharedSpeeds::report(const Observation& observation, const GradientNoise& noise) {
  const std::size_t before = model_.revision();
  model_.report(observation, noise);
  if (model_.revision() != before) ++version_;
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
  // Number of observations on several devices: within a node or across nodes.
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

BatchTable::MicroBatch SharedSpeeds::micro_batch(const PerfParams& fitted, DeviceTypeId type,
                                                 int nodes, int devices, std::int64_t local) const {
  const auto samples = static_cast<double>(local);
  BatchTable::MicroBatch result{.step_s = fitted.step_s(nodes, devices, samples),
                                .compute_s = fitted.compute_s(samples)};
  if (!corrected_) return result;
  MeanError step;
  MeanError compute;  // nearly the same on any number of devices
  for (const Observation& o : model_.observations(type)) {
    const auto seen = static_cast<double>(o.local);
    const double wider = std::log2(static_cast<double>(o.devices) / devices);
    const double larger = std::log2(seen / samples);
    const Seconds computed_s = o.step_s - o.sync_s;
    if (computed_s > 0) compute.add(wider, larger, fitted.compute_s(seen), computed_s);
    if (kind(o.nodes, o.devices) != kind(nodes, devices)) continue;
    step.add(wider, larger, fitted.step_s(o.nodes, o.devices, seen), o.step_s);
  }
  result.step_s /= step.factor();
  result.compute_s /= compute.factor();
  return result;
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
  size.batches.emplace(model_.limits(), devices, [&](std::int64_t local) {
    return micro_batch(fitted, type, nodes, devices, local);
  });
  size.hoped = size.batches->faster(
      [&](std::int64_t local) { return hopeful_ ? hope(type, nodes, devices, local) : 1.0; });
  size.version = version_;
  return size;
}

BestBatch SharedSpeeds::best(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type,
                             int nodes, int devices) const {
  if (usual(spec)) return size(type, nodes, devices).batches->best(noise);
  const PerfParams& fitted = params(type);
  const BatchTable batches(spec.batch, devices, [&](std::int64_t local) {
    return micro_batch(fitted, type, nodes, devices, local);
  });
  return batches.best(noise);
}

BatchShape SharedSpeeds::to_try(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type,
                                int nodes, int devices) const {
  if (!usual(spec)) return best(spec, noise, type, nodes, devices).shape;
  return size(type, nodes, devices).hoped->best(noise).shape;
}

double SharedSpeeds::goodput(const JobSpec& spec, const NoiseCurve& noise, DeviceTypeId type,
                             int nodes, int devices) const {
  if (spec.mode == ElasticMode::kAdaptive) {
    const double sure = best(spec, noise, type, nodes, devices).goodput;
    if (!usual(spec) || sure <= 0) return sure;
    const double hoped = size(type, nodes, devices).hoped->best(noise).goodput;
    return sure * std::pow(hoped / sure, kHopeForSizes);
  }
  const auto [shape, total] = spec.fixed_update(devices);
  if (shape.local < 1) return 0;
  const BatchTable::MicroBatch seconds =
      micro_batch(params(type), type, nodes, devices, shape.local);
  const double scale = total / static_cast<double>(spec.batch.initial);
  return total / (seconds.step_s + shape.accumulation * seconds.compute_s) *
         noise.efficiency(scale, std::log2(scale));
}

void SpeedMemo::refresh(std::size_t version_now, const NoiseCurve& noise_now) {
  if (version == version_now && noise == noise_now) return;
  version = version_now;
  noise = noise_now;
  for (std::vector<double>& type : goodput) type.clear();
}

}  // namespace rubato
