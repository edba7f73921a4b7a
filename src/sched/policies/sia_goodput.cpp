#include "sched/policies/sia_goodput.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

constexpr int kProfiledBatches = 10;

// Goodput at the batch that the job's owner fixed.
double fixed_goodput(const PerfParams& params, const GradientNoise& noise, const JobSpec& spec,
                     int nodes, int devices) {
  const auto [shape, total] = spec.fixed_update(devices);
  if (shape.local < 1) return 0;
  const auto local = static_cast<double>(shape.local);
  const Seconds seconds =
      params.step_s(nodes, devices, local) + shape.accumulation * params.compute_s(local);
  return total / seconds *
         statistical_efficiency(noise, total, static_cast<double>(spec.batch.initial));
}

}  // namespace

void SiaGoodput::profile(const JobState& job, Memory& memory, const Cluster& cluster) const {
  if (job.profiled == nullptr || !profiled_) return;
  const BatchLimits& limits = job.spec.batch;
  const auto low = static_cast<double>(std::max<std::int64_t>(1, limits.min_local));
  const auto high = std::max(low, static_cast<double>(limits.max_local));
  for (std::size_t i = 0; i < cluster.type_count(); ++i) {
    const DeviceTypeId type(i);
    if (!job.spec.allows(type)) continue;
    for (int step = 0; step < kProfiledBatches; ++step) {
      const double share = static_cast<double>(step) / (kProfiledBatches - 1);
      const auto local = static_cast<std::int64_t>(std::lround(low * std::pow(high / low, share)));
      const StepTime time = job.profiled->step_time(Placement::packed(type, 1, 1), local);
      memory.model.report({.type = type,
                           .nodes = 1,
                           .devices = 1,
                           .local = local,
                           .step_s = time.step_s,
                           .sync_s = time.sync_s},
                          {});
    }
  }
}

void SiaGoodput::observe(const PolicyInput& input) {
  for (const FinishedJob& job : input.finished) memory_.erase(job.id);
  for (const JobState* job : input.jobs) {
    if (job->learned == nullptr) continue;
    std::unique_ptr<Memory>& memory = memory_[job->spec.id];
    if (!memory) {
      memory = std::make_unique<Memory>(job->spec.batch);
      profile(*job, *memory, input.cluster);
    }
    const LearnedModel& learned = *job->learned;
    for (std::size_t i = 0; i < input.cluster.type_count(); ++i) {
      const DeviceTypeId type(i);
      bool news = false;
      learned.tell_since(memory->revision, type, [&](const Observation& seen) {
        memory->model.report(seen, learned.noise());
        memory->most_devices[i] = std::max(memory->most_devices[i], seen.devices);
        news = true;
      });
      // A report without new observations still updates the noise.
      const auto known = learned.observations(type);
      if (!news && !known.empty()) memory->model.report(known.back(), learned.noise());
    }
    memory->revision = learned.revision();
  }
}

double SiaGoodput::at(const Memory& memory, const JobSpec& spec, DeviceTypeId type, int nodes,
                      int devices) {
  if (spec.mode == ElasticMode::kAdaptive) return memory.model.best(type, nodes, devices).goodput;
  return fixed_goodput(memory.model.params(type), memory.model.noise(), spec, nodes, devices);
}

double SiaGoodput::goodput(const JobState& job, DeviceTypeId type, int nodes, int devices) const {
  const JobSpec& spec = job.spec;
  if (job.learned == nullptr) {
    if (job.profiled == nullptr) return devices;
    return 1.0 / job.profiled->step_time(Placement::packed(type, devices, devices), 0).step_s;
  }
  const Memory& memory = *memory_.at(spec.id);
  if (memory.model.empty()) return devices;
  if (devices == 1 || memory.most_devices[type.index()] > 1) {
    return at(memory, spec, type, nodes, devices);
  }
  const auto other = std::max_element(memory.most_devices.begin(), memory.most_devices.end());
  if (*other <= 1) return at(memory, spec, type, nodes, devices);
  const DeviceTypeId seen(static_cast<std::size_t>(other - memory.most_devices.begin()));
  const double one_there = at(memory, spec, seen, 1, 1);
  if (one_there <= 0) return at(memory, spec, seen, nodes, devices);
  return at(memory, spec, type, 1, 1) * at(memory, spec, seen, nodes, devices) / one_there;
}

std::int64_t SiaGoodput::batch(const JobState& job, DeviceTypeId type, int nodes,
                               int devices) const {
  const JobSpec& spec = job.spec;
  if (spec.mode != ElasticMode::kAdaptive || job.learned == nullptr || job.learned->empty()) {
    return 0;
  }
  const BestBatch& best = memory_.at(spec.id)->model.best(type, nodes, devices);
  if (best.goodput <= 0) return 0;
  return std::clamp(best.shape.total(devices), spec.batch.initial, spec.batch.max);
}

}  // namespace rubato
