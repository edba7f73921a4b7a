#include "sched/scalability.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool same_limits(const BatchLimits& a, const BatchLimits& b) {
  return a.initial == b.initial && a.max == b.max && a.min_local == b.min_local &&
         a.max_local == b.max_local;
}

// Micro-batches from low to high, at most `most` of them, evenly spaced in the logarithm.
std::vector<std::int64_t> steps_between(std::int64_t low, std::int64_t high, int most) {
  std::vector<std::int64_t> steps;
  if (high - low < most) {
    for (std::int64_t local = low; local <= high; ++local) steps.push_back(local);
    return steps;
  }
  const double ratio = std::log(static_cast<double>(high) / static_cast<double>(low));
  for (int i = 0; i < most; ++i) {
    const double exact = static_cast<double>(low) * std::exp(ratio * i / (most - 1));
    const std::int64_t local =
        std::clamp(std::llround(exact), static_cast<long long>(low), static_cast<long long>(high));
    if (steps.empty() || steps.back() != local) steps.push_back(local);
  }
  return steps;
}

// Predictions for one job.
class Predictor {
 public:
  Predictor(const JobState& job, const BatchRange& batches, const Cluster& cluster)
      : job_(job), batches_(batches), cluster_(cluster) {
    DeviceTypeId first;
    for (std::size_t i = cluster.type_count(); i-- > 0;) {
      if (job.spec.allows(DeviceTypeId(i))) first = DeviceTypeId(i);
    }
    const BatchLimits& limits = job.spec.batch;
    const std::int64_t local = std::min(limits.max_local, limits.max);
    reference_ = rate({.local = local, .accumulation = 0}, first, 1);
  }

  Scalability::At best(DeviceTypeId type, int devices) const {
    if (!job_.spec.batch.known()) return {rate({}, type, devices) / reference_, 0};
    Scalability::At best;
    // Avoids accumulation if possible. Every device runs the same micro-batch.
    const BatchLimits& limits = job_.spec.batch;
    const std::int64_t low = ceil_div(batches_.low, devices);
    const std::int64_t high = std::min(batches_.high / devices, limits.max_local);
    for (const std::int64_t local :
         steps_between(low, std::max(low, high), ScalabilityAnalyzer::kBatchSteps)) {
      const std::int64_t batch = std::clamp(local * devices, batches_.low, batches_.high);
      const double speedup = rate(split_batch(batch, devices, limits), type, devices) / reference_;
      if (speedup > best.speedup) best = {speedup, batch};
    }
    return best;
  }

 private:
  // Samples per second, or updates per second for a job without batches.
  double rate(const BatchShape& shape, DeviceTypeId type, int devices) const {
    const double work = shape.local > 0 ? static_cast<double>(shape.total(devices)) : 1.0;
    if (job_.profiled == nullptr) return devices;
    const Placement packed = Placement::packed(type, devices, cluster_.node_size(type));
    return work / job_.profiled->step_time(packed, shape.local).update_s(shape);
  }

  const JobState& job_;
  const BatchRange& batches_;
  const Cluster& cluster_;
  double reference_ = 1;
};

}  // namespace

BatchRange allowed_batches(const JobSpec& spec) {
  if (!spec.batch.known()) return {};
  if (spec.mode == ElasticMode::kAdaptive) return {spec.batch.initial, spec.batch.max};
  return {spec.requested_batch, spec.requested_batch};
}

SizeRange sizes_for(const JobSpec& spec, const BatchRange& batches) {
  if (spec.mode == ElasticMode::kRigid) return {spec.requested_devices, spec.requested_devices};
  SizeRange sizes{spec.min_devices, spec.max_devices};
  // A device hosts as many logical workers as necessary, one after another.
  if (!spec.batch.known() || spec.logical_workers > 0) return sizes;
  const std::int64_t holds = ceil_div(batches.low, spec.batch.max_local);
  const std::int64_t feeds = batches.high / spec.batch.min_local;
  const auto within = [&](std::int64_t devices) {
    return static_cast<int>(std::clamp<std::int64_t>(devices, spec.min_devices, spec.max_devices));
  };
  sizes.low = within(holds);
  sizes.high = std::max(sizes.low, within(feeds));
  return sizes;
}

const Scalability& ScalabilityAnalyzer::of(const JobState& job, DeviceTypeId type, int largest,
                                           const BatchRange& batches, const Cluster& cluster) {
  std::shared_ptr<const Scalability>& known = by_job_[job.spec.id][type.index()];
  if (known) return *known;
  SizeRange sizes = sizes_for(job.spec, batches);
  sizes.high = std::min(sizes.high, largest);
  if (job.spec.mode != ElasticMode::kRigid) {
    // A batch that only a larger cluster could hold is accumulated on the devices that exist.
    sizes.low = std::max(std::min(sizes.low, sizes.high), job.spec.min_devices);
  }
  std::erase_if(kinds_, [](const Kind& kind) { return kind.table.expired(); });
  for (const Kind& kind : kinds_) {
    if (kind.profiled == job.profiled && kind.type == type && kind.batches == batches &&
        kind.sizes.low == sizes.low && kind.sizes.high == sizes.high &&
        kind.allowed_types == job.spec.allowed_types && same_limits(kind.limits, job.spec.batch)) {
      known = kind.table.lock();
      return *known;
    }
  }
  auto table = std::make_shared<Scalability>();
  table->sizes = sizes;
  const Predictor predictor(job, batches, cluster);
  for (int devices = sizes.low; devices <= sizes.high; ++devices) {
    table->at.push_back(predictor.best(type, devices));
  }
  known = std::move(table);
  kinds_.push_back(
      {job.profiled, job.spec.batch, batches, sizes, job.spec.allowed_types, type, known});
  return *known;
}

void ScalabilityAnalyzer::forget(std::span<const FinishedJob> finished) {
  for (const FinishedJob& job : finished) forget(job.id);
}

}  // namespace rubato
