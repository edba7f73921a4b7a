#include "sched/policies/rubato_outlook.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

// Jobs that only have a recorded duration are assumed to scale like this until somebody measures
// them.
constexpr double kAssumedExponent = 0.9;
// An epoch is never assumed to be nearer than this to its end: rounding must not make a job look
// finished.
constexpr double kLeastEpochs = 0.05;

}  // namespace

DeviceTypeId reference_type(const JobSpec& spec, const Cluster& cluster) {
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (spec.allows(DeviceTypeId(type))) return DeviceTypeId(type);
  }
  return DeviceTypeId(0);
}

double OutlookBook::goodput(const LearnedModel& model, const GradientNoise& noise,
                            const JobSpec& spec, DeviceTypeId type, int nodes, int devices) const {
  const PerfParams& params = model.params(type);
  // Where this size was measured, the fit is corrected by what was measured.
  double ratio = 0;
  int seen = 0;
  for (const Observation& o : model.observations(type)) {
    if (o.devices != devices || (o.nodes > 1) != (nodes > 1)) continue;
    ratio += params.step_s(o.nodes, o.devices, static_cast<double>(o.local)) / o.step_s;
    ++seen;
  }
  const double correction = seen > 0 ? ratio / seen : 1.0;
  if (spec.mode == ElasticMode::kAdaptive) {
    return best_batch(params, noise, spec.batch, nodes, devices).goodput * correction;
  }
  const BatchShape shape = split_batch(spec.requested_batch, devices, spec.batch);
  if (shape.local < 1) return 0;
  const auto local = static_cast<double>(shape.local);
  const double seconds =
      params.step_s(nodes, devices, local) + shape.accumulation * params.compute_s(local);
  const auto total = static_cast<double>(shape.total(devices));
  return total / seconds * correction *
         statistical_efficiency(noise, total, static_cast<double>(spec.batch.initial));
}

void OutlookBook::observe(const PolicyInput& input) {
  for (const JobState* job : input.jobs) {
    if (job->learned == nullptr || job->learned->empty()) continue;
    Application& app = applications_[job->spec.application];
    if (!app.model) {
      app.model = std::make_unique<LearnedModel>(job->spec.batch);
      app.first_noise = job->learned->noise();
    }
    Memory& memory = memory_[job->spec.id];
    for (std::size_t type = 0; type < input.cluster.type_count(); ++type) {
      const auto seen = job->learned->observations(DeviceTypeId(type));
      for (std::size_t& copied = memory.copied[type]; copied < seen.size(); ++copied) {
        app.model->report(seen[copied], job->learned->noise());
      }
    }
    if (memory.goodput > 0) {
      app.work += memory.goodput * (input.now_s - memory.at_s);
      app.epochs += job->progress->epochs_done(input.now_s) - memory.epochs;
    }
  }
  for (const FinishedJob& job : input.finished) memory_.erase(job.id);
}

void OutlookBook::remember(const PolicyInput& input) {
  for (const JobState* job : input.jobs) {
    if (job->learned == nullptr || job->learned->empty()) continue;
    Memory& memory = memory_[job->spec.id];
    memory.at_s = input.now_s;
    memory.epochs = job->progress->epochs_done(input.now_s);
    memory.goodput = 0;
    // A job that changed a moment ago may still pause: its progress would say little about its
    // goodput.
    if (!job->running() || input.now_s - job->changed_at_s < job->resize_cost_s) continue;
    const DeviceTypeId type = input.cluster.node(job->allocation.shares.front().node).type;
    memory.goodput =
        goodput(*applications_.at(job->spec.application).model, job->learned->noise(), job->spec,
                type, static_cast<int>(job->allocation.shares.size()), job->allocation.devices());
  }
}

// Durations have heavy tails: a job that has run long is expected to run as long again. In steps of
// two, so that jobs of unknown length do not overtake each other at every decision.
Seconds OutlookBook::as_long_again(double service) const {
  return prior_s_ * std::exp2(std::ceil(std::log2(std::max(1.0, service / prior_s_))));
}

Outlook OutlookBook::outlook(const JobState& job, const PolicyInput& input) const {
  Outlook result{.job = &job};
  if (job.learned == nullptr) {
    result.length_s = as_long_again(job.attained_service(input.now_s));
    return result;
  }
  const auto app = applications_.find(job.spec.application);
  if (app == applications_.end()) return result;
  result.model = app->second.model.get();
  result.noise = job.learned->empty() ? app->second.first_noise : job.learned->noise();
  const DeviceTypeId type = reference_type(job.spec, input.cluster);
  result.reference_goodput = goodput(*result.model, result.noise, job.spec, type, 1, 1);
  if (result.reference_goodput <= 0) result.reference_goodput = 1;
  if (app->second.epochs > 0 && job.spec.epochs > 0) {
    const double left =
        std::max(kLeastEpochs, job.spec.epochs - job.progress->epochs_done(input.now_s));
    result.length_s = left * app->second.work / app->second.epochs / result.reference_goodput;
  } else {
    result.length_s = as_long_again(job.attained_service(input.now_s));
  }
  return result;
}

double OutlookBook::speed(const Outlook& outlook, DeviceTypeId type, int devices,
                          const Cluster& cluster) const {
  if (outlook.model == nullptr) return std::pow(devices, kAssumedExponent);
  const int nodes = devices > cluster.node_size(type) ? 2 : 1;
  return goodput(*outlook.model, outlook.noise, outlook.job->spec, type, nodes, devices) /
         outlook.reference_goodput;
}

std::int64_t OutlookBook::batch(const Outlook& outlook, DeviceTypeId type, int devices,
                                const Cluster& cluster) const {
  const JobSpec& spec = outlook.job->spec;
  if (outlook.model == nullptr || spec.mode != ElasticMode::kAdaptive) return 0;
  const int nodes = devices > cluster.node_size(type) ? 2 : 1;
  const BestBatch best =
      best_batch(outlook.model->params(type), outlook.noise, spec.batch, nodes, devices);
  if (best.goodput <= 0) return 0;
  return std::clamp(best.shape.total(devices), spec.batch.initial, spec.batch.max);
}

}  // namespace rubato
