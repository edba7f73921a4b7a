#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

using Field = JobProblem::Field;

std::vector<std::string> type_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    names.push_back(cluster.type_name(DeviceTypeId(type)));
  }
  return names;
}

JobProblem unknown_application(std::string_view name, const Applications& applications) {
  if (applications.empty()) {
    return {Field::kApplication, "unknown application: no application profiles were given"};
  }
  std::vector<std::string> names;
  for (const auto& [known, application] : applications) names.push_back(known);
  return {Field::kApplication, fmt::format("unknown application{}; expected one of {}",
                                           did_you_mean(name, names), join(names, ", "))};
}

}  // namespace

JobBuilder::JobBuilder(const Cluster& cluster, const Applications& applications,
                       const WorkloadOptions& options)
    : cluster_(cluster),
      applications_(applications),
      options_(options),
      all_types_((1U << cluster.type_count()) - 1U) {}

int JobBuilder::largest_pool(std::uint32_t types) const {
  int largest = 0;
  for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
    if ((types >> type & 1U) == 0) continue;
    largest = std::max(largest, cluster_.capacity()[DeviceTypeId(type)]);
  }
  return largest;
}

int JobBuilder::whole_pool(std::uint32_t types) const {
  int total = 0;
  for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
    if ((types >> type & 1U) != 0) total += cluster_.capacity()[DeviceTypeId(type)];
  }
  return total;
}

std::optional<JobProblem> JobBuilder::find_types(const JobRequest& request,
                                                 WorkloadJob& job) const {
  job.spec.allowed_types = all_types_;
  if (!request.device_type.empty()) {
    const DeviceTypeId type = cluster_.find_type(request.device_type);
    if (!type.valid()) {
      const std::vector<std::string> names = type_names(cluster_);
      return JobProblem{Field::kDeviceType,
                        fmt::format("not a device type of the cluster{}; expected one of {}",
                                    did_you_mean(request.device_type, names), join(names, ", "))};
    }
    job.spec.allowed_types = 1U << type.index();
  }
  if (job.application == nullptr) return std::nullopt;
  for (std::size_t type = 0; type < cluster_.type_count(); ++type) {
    if (job.application->speed(DeviceTypeId(type)) == nullptr) {
      job.spec.allowed_types &= ~(1U << type);
    }
  }
  if (job.spec.allowed_types != 0) return std::nullopt;
  if (!request.device_type.empty()) {
    return JobProblem{
        Field::kApplication,
        fmt::format("the application was not measured on device type '{}'", request.device_type)};
  }
  return JobProblem{
      Field::kApplication,
      fmt::format("the application was not measured on any device type of the cluster ({})",
                  join(type_names(cluster_), ", "))};
}

std::optional<JobProblem> JobBuilder::build(const JobRequest& request, WorkloadJob& job) const {
  JobSpec& spec = job.spec;
  if (request.application.empty()) {
    job.duration_s = request.duration_s;
  } else {
    const auto found = applications_.find(request.application);
    if (found == applications_.end()) {
      return unknown_application(request.application, applications_);
    }
    job.application = found->second;
    spec.application = request.application;
  }
  if (auto problem = find_types(request, job)) return problem;

  if (auto problem = check_workers(request)) return problem;
  spec.logical_workers = request.logical_workers;
  spec.mixes_types = request.mixes_types;

  const int pool = largest_pool(spec.allowed_types);
  int requested = std::max(request.min_devices, 1);
  if (request.requested_devices > 0) {
    requested = request.requested_devices;
  } else if (request.logical_workers > 0 && request.min_devices == 0) {
    requested = std::min(request.logical_workers, pool);
    if (request.max_devices > 0) requested = std::min(requested, request.max_devices);
  }
  if (requested < request.min_devices ||
      (request.max_devices > 0 && requested > request.max_devices)) {
    return JobProblem{Field::kDevices, "expected min <= requested <= max"};
  }
  if (requested > pool) {
    return JobProblem{
        Field::kDevices,
        fmt::format("job larger than the cluster: it requests {} devices; the largest device type "
                    "it may use has {}",
                    requested, pool)};
  }
  spec.requested_devices = requested;
  auto problem = job.application != nullptr ? set_trained_size(request, pool, job)
                                            : set_recorded_size(request, pool, job);
  if (problem || spec.mode != ElasticMode::kRigid) return problem;

  if ((request.min_devices > 0 && request.min_devices != requested) ||
      (request.max_devices > 0 && request.max_devices != requested)) {
    return JobProblem{Field::kDevices, "a rigid job has one size; expected a single number"};
  }
  spec.min_devices = spec.max_devices = requested;
  return std::nullopt;
}

std::optional<JobProblem> JobBuilder::check_workers(const JobRequest& request) {
  if (request.logical_workers == 0) {
    if (!request.mixes_types) return std::nullopt;
    return JobProblem{Field::kMixing, "only a job with logical workers can mix device types"};
  }
  if (request.application.empty()) {
    return JobProblem{Field::kWorkers, "only a job with an application has logical workers"};
  }
  if (request.mode.value_or(ElasticMode::kConsistent) != ElasticMode::kConsistent) {
    return JobProblem{Field::kMode, "a job with logical workers must be consistent"};
  }
  return std::nullopt;
}

// All workers have equal shares of the batch, and every device has a worker.
std::optional<JobProblem> JobBuilder::set_workers(const JobRequest& request, int most,
                                                  WorkloadJob& job) const {
  JobSpec& spec = job.spec;
  const int workers = spec.logical_workers;
  if (spec.requested_batch % workers != 0) {
    return JobProblem{Field::kWorkers,
                      fmt::format("a batch of {} cannot be split into {} equal parts",
                                  spec.requested_batch, workers)};
  }
  const std::int64_t local = spec.worker_batch();
  if (local < spec.batch.min_local || local > spec.batch.max_local) {
    return JobProblem{
        Field::kWorkers,
        fmt::format("a worker would have a batch of {}; the application allows {} to {}", local,
                    spec.batch.min_local, spec.batch.max_local)};
  }
  if (spec.requested_devices > workers) {
    return JobProblem{Field::kDevices, fmt::format("{} devices, but only {} logical workers",
                                                   spec.requested_devices, workers)};
  }
  spec.max_devices = std::min(workers, most);
  if (request.max_devices > 0) spec.max_devices = std::min(spec.max_devices, request.max_devices);
  return std::nullopt;
}

std::optional<JobProblem> JobBuilder::set_trained_size(const JobRequest& request, int pool,
                                                       WorkloadJob& job) const {
  const Application& application = *job.application;
  JobSpec& spec = job.spec;
  spec.mode = request.mode.value_or(application.fixed_batch() || request.logical_workers > 0
                                        ? ElasticMode::kConsistent
                                        : ElasticMode::kAdaptive);
  if (spec.mode == ElasticMode::kAdaptive && application.fixed_batch()) {
    return JobProblem{Field::kMode,
                      "this application's batch is fixed; expected consistent or rigid"};
  }
  spec.batch = application.batch();
  spec.epochs = application.epochs();
  spec.requested_batch = request.batch > 0 ? request.batch : spec.batch.initial;
  if (spec.requested_batch < spec.batch.initial || spec.requested_batch > spec.batch.max) {
    return JobProblem{Field::kBatch,
                      fmt::format("expected a batch from {} to {}, the application's limits",
                                  spec.batch.initial, spec.batch.max)};
  }

  const int requested = spec.requested_devices;
  if (application.max_devices() > 0 && requested > application.max_devices()) {
    return JobProblem{Field::kDevices,
                      fmt::format("the application runs on at most {} devices, not {}",
                                  application.max_devices(), requested)};
  }
  const std::int64_t largest_batch =
      spec.mode == ElasticMode::kAdaptive ? spec.batch.max : spec.requested_batch;
  if (requested > largest_batch) {
    return JobProblem{Field::kDevices, fmt::format("a batch of {} is too small for {} devices",
                                                   largest_batch, requested)};
  }
  const std::int64_t fed = std::max<std::int64_t>(
      largest_batch / std::max<std::int64_t>(spec.batch.min_local, 1), requested);
  spec.min_devices = std::max(request.min_devices, 1);
  spec.max_devices = static_cast<int>(std::min<std::int64_t>(pool, fed));
  for (const int limit : {application.max_devices(), request.max_devices}) {
    if (limit > 0) spec.max_devices = std::min(spec.max_devices, limit);
  }
  if (spec.logical_workers == 0) return std::nullopt;
  int most = spec.mixes_types ? whole_pool(spec.allowed_types) : pool;
  if (application.max_devices() > 0) most = std::min(most, application.max_devices());
  return set_workers(request, most, job);
}

std::optional<JobProblem> JobBuilder::set_recorded_size(const JobRequest& request, int pool,
                                                        WorkloadJob& job) const {
  JobSpec& spec = job.spec;
  if (request.mode == ElasticMode::kAdaptive) {
    return JobProblem{Field::kMode,
                      "an adaptive job needs an application; expected consistent or rigid"};
  }
  if (request.batch > 0) {
    return JobProblem{Field::kBatch, "only a job with an application has a batch"};
  }
  const int requested = spec.requested_devices;
  bool elastic = false;
  if (request.min_devices > 0 || request.max_devices > 0) {
    spec.min_devices = std::max(request.min_devices, 1);
    spec.max_devices = std::min(std::max(request.max_devices, requested), pool);
    elastic = spec.min_devices < std::max(request.max_devices, requested);
  } else {
    elastic = options_.elastic_low != 1.0 || options_.elastic_high != 1.0;
    spec.min_devices = std::max(1, static_cast<int>(std::floor(options_.elastic_low * requested)));
    spec.max_devices = static_cast<int>(
        std::min(std::ceil(options_.elastic_high * requested), static_cast<double>(pool)));
  }
  spec.mode = request.mode.value_or(elastic ? ElasticMode::kConsistent : ElasticMode::kRigid);
  return std::nullopt;
}

}  // namespace rubato
