// What happened over time: a recorder looks at the daemon, and callers ask what it saw.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/stats.h"
#include "control/live_controller.h"

namespace rubato::control {

void LiveController::start_recorder() {
  auto store = SeriesStore::open(options_.folder, store_->identity(), store_->state().last_seq);
  if (!store.ok()) {
    fmt::print(stderr, "rubatod: {}; the dashboard has no history\n", store.error().message);
  }
  recorder_ = std::make_unique<Recorder>(
      store.ok() ? std::move(*store) : nullptr,
      Recorder::Sources{
          .sample = [this] { return take_sample(); },
          .points = [this] { return take_points(); },
          .events = [this](std::int64_t after,
                           int limit) { return store_->read_events(after, limit, 0, ""); }});
}

namespace {

// Of these devices together; NaN where no driver tells anything.
UseValues together(const std::vector<DeviceUse>& devices) {
  double busy = 0;
  int told_busy = 0;
  double used = 0;
  double memory = 0;
  for (const DeviceUse& device : devices) {
    if (device.utilisation) {
      busy += *device.utilisation;
      ++told_busy;
    }
    if (device.memory && device.memory_used) {
      used += static_cast<double>(*device.memory_used);
      memory += static_cast<double>(*device.memory);
    }
  }
  return {told_busy > 0 ? busy / told_busy : kUnknownUse, memory > 0 ? used / memory : kUnknownUse};
}

}  // namespace

ClusterSample LiveController::take_sample() const {
  const UseValues use = together(executor_->device_use());
  const ReadLock lock(mutex_);
  const double now = now_unix();
  double allocated = 0;
  double held = 0;
  double training = 0;
  double running = 0;
  std::vector<double> waited;
  for (const auto& [number, job] : store_->state().jobs) {
    allocated += job.granted;
    held += job.held;
    running += job.phase == Phase::kRunning ? 1 : 0;
    if (job.phase == Phase::kQueued) waited.push_back(std::max(0.0, now - job.submitted_at));
    const auto live = live_.find(number);
    if (live != live_.end() && job.held > 0) training += live->second.progress.workers;
  }
  const auto queued = static_cast<double>(waited.size());
  waited = sorted_copy(waited);
  const auto percentile = [&](double percent) {
    return waited.empty() ? 0.0 : percentile_sorted(waited, percent);
  };
  return {.at = now,
          .values = {static_cast<double>(live_cluster().devices()),
                     static_cast<double>(reserved_now()), allocated, held, std::min(training, held),
                     queued, running, percentile(50), percentile(90)},
          .use = use};
}

std::optional<JobPoint> LiveController::point_of(const JobRecord& job, double now) const {
  if (job.held == 0) return std::nullopt;
  JobPoint point{.job = job.number, .at = now, .held = job.held};
  const auto live = live_.find(job.number);
  if (live != live_.end()) {
    const LiveProgress& progress = live->second.progress;
    point.step = progress.step;
    point.step_s = progress.step_s;
    point.loss = progress.loss;
    if (progress.step_s > 0) {
      point.samples_per_s = static_cast<double>(progress.batch) / progress.step_s;
    }
  }
  const auto metrics = job.progress.find("metrics");
  if (metrics != job.progress.end() && metrics->is_object()) point.metrics = *metrics;
  return point;
}

std::vector<JobPoint> LiveController::take_points() const {
  std::vector<JobPoint> points;
  {
    const ReadLock lock(mutex_);
    const double now = now_unix();
    for (const auto& [number, job] : store_->state().jobs) {
      if (auto point = point_of(job, now)) points.push_back(std::move(*point));
    }
  }
  const auto use = use_by_job();
  for (JobPoint& point : points) {
    if (const auto found = use.find(point.job); found != use.end()) {
      point.use = together(found->second);
    }
  }
  return points;
}

std::map<JobNumber, std::vector<DeviceUse>> LiveController::use_by_job() const {
  std::map<JobNumber, std::vector<DeviceUse>> jobs;
  for (DeviceUse& use : executor_->device_use()) jobs[use.job].push_back(std::move(use));
  return jobs;
}

Result<Series> LiveController::series(const SeriesQuery& query) const {
  if (recorder_->store() == nullptr) return Series{};
  SeriesQuery filled = query;
  if (filled.to <= 0) filled.to = now_unix();
  if (filled.from <= 0) filled.from = filled.to - 3600;
  recorder_->catch_up();
  return recorder_->store()->read(filled);
}

ClusterSample LiveController::newest_sample() const { return recorder_->newest(); }

Result<std::vector<JobPoint>> LiveController::job_points(const Caller& caller,
                                                         JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return record.error();
  if (recorder_->store() == nullptr) return std::vector<JobPoint>{};
  recorder_->catch_up();
  return recorder_->store()->points(job);
}

std::optional<JobPoint> LiveController::newest_point(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return std::nullopt;
  std::optional<JobPoint> point;
  {
    const ReadLock lock(mutex_);
    point = point_of(*record, now_unix());
  }
  if (!point) return point;
  const auto use = use_by_job();
  if (const auto found = use.find(job); found != use.end()) point->use = together(found->second);
  return point;
}

Result<nlohmann::json> LiveController::devices_at(const Caller& caller, double at) const {
  DevicesThen then{.at = at > 0 ? at : now_unix()};
  if (recorder_->store() != nullptr) {
    recorder_->catch_up();
    auto found = recorder_->store()->devices(then.at);
    if (!found.ok()) return found.error();
    then = std::move(*found);
  }
  if (at <= 0) then.reservations = reservations();
  int reserved = 0;
  nlohmann::json reserved_rows = nlohmann::json::array();
  for (const Reservation& reservation : then.reservations) {
    reserved += reservation.devices;
    reserved_rows.push_back(to_json(reservation));
  }
  const auto cluster = LiveCluster::make(then.nodes);
  const std::vector<int> on = cluster.ok() ? reserved_on(*cluster, reserved) : std::vector<int>();
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t i = 0; i < then.nodes.size(); ++i) {
    const LiveNode& node = then.nodes[i];
    nodes.push_back({{"node", node.name},
                     {"device_type", node.device_type},
                     {"devices", node.devices},
                     {"reserved", i < on.size() ? on[i] : 0}});
  }
  nlohmann::json held = nlohmann::json::array();
  for (const DeviceSpan& span : then.spans) {
    nlohmann::json row = {{"nodes", placement_json(span.nodes)}};
    if (const Result<JobRecord> job = visible(caller, span.job); job.ok()) {
      row["job"] = job_name_of(span.job);
      row["name"] = job_title(job->document);
      row["tenant"] = job->tenant;
      row["since"] = span.since;
      row["until"] = span.until;
    }
    held.push_back(std::move(row));
  }
  // What drivers tell is not kept for each device.
  nlohmann::json use = nlohmann::json::array();
  if (at <= 0) {
    for (const DeviceUse& device : executor_->device_use()) {
      if (device.job != 0 && !visible(caller, device.job).ok()) continue;
      nlohmann::json row = to_json(device);
      row["node"] = device.node;
      row.erase("job");
      if (device.job != 0) row["job"] = job_name_of(device.job);
      use.push_back(std::move(row));
    }
  }
  return nlohmann::json{{"at", then.at},
                        {"use", std::move(use)},
                        {"nodes", std::move(nodes)},
                        {"held", std::move(held)},
                        {"reservations", std::move(reserved_rows)}};
}

}  // namespace rubato::control
