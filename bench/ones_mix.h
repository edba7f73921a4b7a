// A mix of jobs like that of the ONES paper: image and language models trained on data sets of many
// sizes, on 64 devices, with Poisson arrivals. Built from the bundled profiles.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>

#include "base/random.h"
#include "sim/sim_job.h"
#include "sim/simulator.h"

namespace rubato::bench {

inline constexpr int kOnesJobs = 160;

// A program that trains on a part of its data set for a number of epochs.
struct OnesKind {
  const char* application;
  double weight;
  std::array<int, 3> epochs;
  std::array<double, 3> data;  // relative to the whole data set
  std::array<int, 3> devices;  // requested by owners, by size of the data
};

inline constexpr std::array<OnesKind, 4> kOnesMix{{
    {"resnet-small", 35, {30, 60, 100}, {0.4, 0.7, 1.0}, {1, 1, 2}},
    {"resnet-large", 25, {30, 60, 90}, {0.02, 0.05, 0.1}, {2, 4, 8}},
    {"detector", 15, {20, 40, 80}, {0.02, 0.05, 0.15}, {2, 4, 8}},
    {"bert-tune", 25, {3, 4, 8}, {0.03, 0.15, 0.6}, {1, 2, 4}},
}};

// The same program on another amount of data. Epochs and updates per epoch change; the speed and
// the course of the gradient noise from the first to the last epoch do not.
inline std::shared_ptr<const Application> resized(const std::shared_ptr<const Application>& base,
                                                  const Cluster& cluster, int epochs, double data) {
  Application::Description d{.name = fmt::format("{}-{}e-{}", base->name(), epochs, data)};
  d.batch = base->batch();
  d.epochs = epochs;
  const double updates = base->progress_after(1) * data;
  for (std::int64_t batch = d.batch.initial;; batch = std::min(2 * batch, d.batch.max)) {
    BatchRecord record;
    const auto size = static_cast<double>(batch);
    const double scale = size / static_cast<double>(d.batch.initial);
    double iterations = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const GradientNoise noise = base->noise(size, epoch * base->epochs() / epochs);
      iterations += updates / update_gain(noise, scale);
      record.progress.push_back(updates * (epoch + 1));
      record.iteration.push_back(iterations);
      record.noise.push_back(noise);
    }
    d.records.emplace(batch, std::move(record));
    if (batch == d.batch.max) break;
  }
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    d.speed.emplace_back(base, base->speed(DeviceTypeId(type)));
  }
  return std::make_shared<const Application>(std::move(d));
}

// Device-seconds of a job at its requested size.
inline double service_of(const WorkloadJob& job, const Cluster& cluster) {
  const SimJob alone(job, cluster, job.application->speed(DeviceTypeId(0)), {}, {});
  return alone.isolated_s(job.spec.requested_devices) * job.spec.requested_devices;
}

// Poisson arrivals. At a load of 1, the requested service arrives as fast as the cluster can
// provide it.
inline Workload make_ones_workload(const Cluster& cluster, const Applications& bases, double load,
                                   std::uint64_t seed) {
  Random random(seed);
  std::map<std::string, std::shared_ptr<const Application>> made;
  Workload workload{.name = fmt::format("load {}, seed {}", load, seed)};
  double weights = 0;
  for (const OnesKind& kind : kOnesMix) weights += kind.weight;
  double service = 0;
  for (int i = 0; i < kOnesJobs; ++i) {
    double draw = random.uniform() * weights;
    std::size_t k = 0;
    while (k + 1 < kOnesMix.size() && draw >= kOnesMix[k].weight) draw -= kOnesMix[k++].weight;
    const OnesKind& kind = kOnesMix[k];
    const int epochs = kind.epochs[random.below(3)];
    const std::size_t part = random.below(3);
    auto& app = made[fmt::format("{} {} {}", kind.application, epochs, part)];
    if (!app) app = resized(bases.at(kind.application), cluster, epochs, kind.data[part]);
    WorkloadJob job{.application = app};
    job.spec.id = JobId(static_cast<std::size_t>(i));
    job.spec.name = fmt::format("{}-{}", kind.application, i);
    job.spec.mode = ElasticMode::kAdaptive;
    job.spec.application = kind.application;
    job.spec.epochs = epochs;
    job.spec.batch = app->batch();
    job.spec.requested_devices = kind.devices[part];
    job.spec.requested_batch =
        std::min(app->batch().max, app->batch().initial * job.spec.requested_devices);
    job.spec.max_devices = static_cast<int>(
        std::min<std::int64_t>(cluster.devices(), app->batch().max / app->batch().min_local));
    service += service_of(job, cluster);
    workload.jobs.push_back(std::move(job));
  }
  const Seconds gap_s = service / kOnesJobs / (load * cluster.devices());
  Seconds now_s = 0;
  for (WorkloadJob& job : workload.jobs) {
    job.spec.submit_s = now_s;
    now_s += random.exponential(gap_s);
  }
  return workload;
}

}  // namespace rubato::bench
