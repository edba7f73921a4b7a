#include "sched/policies/rubato_outlook.h"

#include <algorithm>
#include <cmath>

namespace rubato {

namespace {

// Jobs with only a recorded duration are assumed to scale like this until a job measures it.
constexpr double kAssumedExponent = 0.9;
// At least this many epochs are always assumed to be left: rounding must not make a job look
// finished.
constexpr double kLeastEpochs = 0.05;
// Stages whose noise differs by less than this (in logarithms, at a few times the initial batch)
// form one part of a job.
constexpr double kAlike = 0.15;
constexpr double kAlikeDoublings = 3;

// A job that has run this long without a report will not make one.
constexpr Seconds kFirstReport = 300;

bool silent(const JobState& job, Seconds now_s) {
  return job.executed_s(now_s) > kFirstReport + job.starts * job.resize_cost_s;
}

double share_done(const JobState& job, Seconds now_s) {
  return job.progress->epochs_done(now_s) / job.spec.epochs;
}

}  // namespace

DeviceTypeId reference_type(const JobSpec& spec, const Cluster& cluster) {
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (spec.allows(DeviceTypeId(type))) return DeviceTypeId(type);
  }
  return DeviceTypeId(0);
}

std::string OutlookBook::key(const JobState& job) const {
  return options_.shared ? job.spec.application : std::to_string(job.spec.id.value);
}

void OutlookBook::observe(const PolicyInput& input) {
  for (const JobState* job : input.jobs) {
    if (job->learned == nullptr || job->learned->empty()) continue;
    const auto found = applications_.try_emplace(key(*job), job->spec.batch, options_);
    Application& app = found.first->second;
    if (found.second) app.first_noise = job->learned->noise();
    if (job->spec.epochs > 0) app.told_epochs = job->spec.epochs;
    Memory& memory = memory_[job->spec.id];
    if (memory.revision != job->learned->revision()) {
      for (std::size_t type = 0; type < input.cluster.type_count(); ++type) {
        job->learned->tell_since(memory.revision, DeviceTypeId(type), [&](const Observation& seen) {
          app.speeds.report(seen, job->learned->noise());
        });
      }
      memory.revision = job->learned->revision();
    }
    if (job->spec.epochs > 0 && job->allocation.batch > 0) {
      memory.noise = {.ratio = noise_ratio(job->learned->noise()),
                      .doublings = std::log2(static_cast<double>(job->allocation.batch) /
                                             static_cast<double>(job->spec.batch.initial))};
      app.noise.report(share_done(*job, input.now_s), memory.noise);
    }
    if (memory.goodput > 0) {
      app.work += memory.goodput * (input.now_s - memory.at_s);
      app.epochs += job->progress->epochs_done(input.now_s) - memory.epochs;
    }
  }
  for (const FinishedJob& job : input.finished) {
    memory_.erase(job.id);
    if (!options_.shared) applications_.erase(std::to_string(job.id.value));
  }
}

void OutlookBook::remember(const PolicyInput& input) {
  for (const JobState* job : input.jobs) {
    if (job->learned == nullptr || job->learned->empty()) continue;
    Memory& memory = memory_[job->spec.id];
    memory.at_s = input.now_s;
    memory.epochs = job->progress->epochs_done(input.now_s);
    memory.goodput = 0;
    // A job whose devices changed a moment ago may still be pausing. Its progress would say little
    // about its goodput.
    if (!job->running() || input.now_s - job->resized_at_s < job->resize_cost_s) continue;
    const DeviceTypeId type = input.cluster.node(job->allocation.shares.front().node).type;
    const Application& app = applications_.at(key(*job));
    memory.goodput = app.speeds.goodput(job->spec, noise(*job, app, input), type,
                                        static_cast<int>(job->allocation.shares.size()),
                                        job->allocation.devices());
  }
}

// Durations have heavy tails: a job that has run long is expected to run as long again. Rounded up
// to powers of two, so that jobs of unknown length do not overtake each other at every decision.
Seconds OutlookBook::as_long_again(double service) const {
  return options_.prior_s *
         std::exp2(std::ceil(std::log2(std::max(1.0, service / options_.prior_s))));
}

NoiseCurve OutlookBook::noise(const JobState& job, const Application& app,
                              const PolicyInput& input) const {
  const bool fresh = job.learned->empty();
  const double last = noise_ratio(fresh ? app.first_noise : job.learned->noise());
  if (!options_.noise || job.spec.epochs == 0) return NoiseCurve::flat(last);
  const std::size_t stage = NoiseStages::stage_at(share_done(job, input.now_s));
  if (!app.noise.known(stage)) return NoiseCurve::flat(last);
  const auto memory = memory_.find(job.spec.id);
  if (fresh || memory == memory_.end()) return app.noise.curve(stage);
  return app.noise.curve(stage, memory->second.noise);
}

Outlook OutlookBook::outlook(const JobState& job, const PolicyInput& input) {
  Outlook result{.job = &job};
  const auto found = job.learned == nullptr ? applications_.end() : applications_.find(key(job));
  if (found == applications_.end()) {
    result.unexplored = job.learned != nullptr && !silent(job, input.now_s);
    if (result.unexplored) return result;
    result.length_s = as_long_again(job.attained_service(input.now_s));
    result.guessed = true;
    return result;
  }
  Application& app = found->second;
  result.speeds = &app.speeds;
  const bool fresh = job.learned->empty();
  result.memo = fresh && app.speeds.usual(job.spec) ? &app.memo : &memory_[job.spec.id].memo;
  result.memo->refresh(app.speeds.version(), noise(job, app, input));
  result.reference_goodput = 1;
  const double reference = known_goodput(result, *result.memo,
                                         reference_type(job.spec, input.cluster), 1, input.cluster);
  if (reference > 0) result.reference_goodput = reference;
  const int epochs = job.spec.epochs > 0 ? job.spec.epochs : app.told_epochs;
  if (options_.remaining && app.epochs > 0 && epochs > 0) {
    result.epochs_left = std::max(kLeastEpochs, epochs - job.progress->epochs_done(input.now_s));
    result.length_s = result.epochs_left * app.work / app.epochs / result.reference_goodput;
  } else {
    result.length_s = as_long_again(job.attained_service(input.now_s));
    result.guessed = true;
  }
  return result;
}

int OutlookBook::explored(const JobState& job, const Cluster& cluster) const {
  const auto found = applications_.find(key(job));
  if (found == applications_.end()) return 0;
  const SharedSpeeds& speeds = found->second.speeds;
  int result = speeds.max_profiled_devices();
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    result += speeds.measured_on(DeviceTypeId(type)) ? 1 : 0;
  }
  return result;
}

std::vector<OutlookPart> OutlookBook::parts(const Outlook& outlook, const PolicyInput& input) {
  std::vector<OutlookPart> result{{.length_s = outlook.length_s, .memo = outlook.memo}};
  const JobState& job = *outlook.job;
  if (!options_.parts || !options_.remaining || outlook.speeds == nullptr) return result;
  if (job.spec.epochs == 0) return result;
  Application& app = applications_.at(key(job));
  const double done = std::min(share_done(job, input.now_s), 1 - kLeastEpochs / job.spec.epochs);
  const Seconds whole_s = outlook.length_s / (1 - done);
  double from = done;
  double noise = outlook.memo->noise.at(kAlikeDoublings);
  for (std::size_t s = NoiseStages::stage_at(done) + 1; s < NoiseStages::kStages; ++s) {
    if (!app.noise.known(s)) continue;
    const NoiseCurve curve = app.noise.curve(s);
    if (std::abs(std::log(curve.at(kAlikeDoublings) / noise)) < kAlike) continue;
    noise = curve.at(kAlikeDoublings);
    const double at = NoiseStages::begin(s);
    result.back().length_s = (at - from) * whole_s;
    from = at;
    app.stage_memos[s].refresh(app.speeds.version(), curve);
    result.push_back({.length_s = 0, .memo = &app.stage_memos[s]});
  }
  result.back().length_s = (1 - from) * whole_s;
  return result;
}

double OutlookBook::speed(const Outlook& outlook, const OutlookPart& part, DeviceTypeId type,
                          int devices, const Cluster& cluster) const {
  if (part.memo == outlook.memo || !options_.goodput) return speed(outlook, type, devices, cluster);
  return known_goodput(outlook, *part.memo, type, devices, cluster) / outlook.reference_goodput;
}

double OutlookBook::known_goodput(const Outlook& outlook, SpeedMemo& memo, DeviceTypeId type,
                                  int devices, const Cluster& cluster) {
  std::vector<double>& known = memo.goodput[type.index()];
  const auto slot = static_cast<std::size_t>(devices);
  if (slot >= known.size()) known.resize(slot + 1, -1);
  if (known[slot] < 0) {
    const int nodes = devices > cluster.node_size(type) ? 2 : 1;
    known[slot] = outlook.speeds->goodput(outlook.job->spec, memo.noise, type, nodes, devices);
  }
  return known[slot];
}

double OutlookBook::speed(const Outlook& outlook, DeviceTypeId type, int devices,
                          const Cluster& cluster) const {
  if (outlook.speeds == nullptr || !options_.goodput) return std::pow(devices, kAssumedExponent);
  return known_goodput(outlook, *outlook.memo, type, devices, cluster) / outlook.reference_goodput;
}

std::int64_t OutlookBook::batch(const Outlook& outlook, DeviceTypeId type, int devices,
                                const Cluster& cluster) const {
  const JobSpec& spec = outlook.job->spec;
  if (outlook.speeds == nullptr || !options_.goodput) return 0;
  if (spec.mode != ElasticMode::kAdaptive) return 0;
  const int nodes = devices > cluster.node_size(type) ? 2 : 1;
  const BatchShape shape = outlook.speeds->to_try(spec, outlook.memo->noise, type, nodes, devices);
  if (shape.local < 1) return 0;
  return std::clamp(shape.total(devices), spec.batch.initial, spec.batch.max);
}

}  // namespace rubato
