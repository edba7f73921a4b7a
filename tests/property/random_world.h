// Random small worlds for property tests: a cluster, a workload for it, and events that take
// devices away. Everything follows from one seed.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/parametric.h"
#include "sim/simulator.h"

namespace rubato {

struct RandomWorld {
  Cluster cluster;
  Workload workload;
  SimOptions options;
};

inline Cluster random_cluster(Random& random) {
  std::string text;
  const int groups = random.chance(0.3) ? 2 : 1;
  for (int group = 0; group < groups; ++group) {
    if (group > 0) text += ",";
    text += std::to_string(random.between(1, 4)) + "x" + std::to_string(random.between(1, 4));
    text += group == 0 ? ":one" : ":two";
  }
  return *Cluster::parse(text);
}

using ApplicationPtr = std::shared_ptr<const Application>;

// A short training program with random speed and noise.
inline ApplicationPtr random_application(Random& random, const Cluster& cluster, int index) {
  Application::Description d{.name = "app" + std::to_string(index)};
  d.batch = {.initial = 32, .max = 512, .min_local = 8, .max_local = 64};
  d.epochs = random.between(1, 4);
  const double updates = random.between(10, 60);
  for (std::int64_t batch = d.batch.initial; batch <= d.batch.max; batch *= 2) {
    BatchRecord record;
    for (int epoch = 0; epoch < d.epochs; ++epoch) {
      record.progress.push_back(updates * (epoch + 1));
      record.iteration.push_back(updates * (epoch + 1) * 32.0 / static_cast<double>(batch));
      record.noise.push_back({1.0, 0.1 + 20 * random.uniform()});
    }
    d.records.emplace(batch, std::move(record));
  }
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    d.speed.push_back(
        std::make_shared<ParametricSpeed>(PerfParams{.alpha_c = 0.05 + random.uniform(),
                                                     .beta_c = 0.001 + 0.02 * random.uniform(),
                                                     .alpha_n = 0.01 + 0.5 * random.uniform(),
                                                     .beta_n = 0.001 + 0.05 * random.uniform(),
                                                     .alpha_r = 0.001 + 0.1 * random.uniform(),
                                                     .beta_r = 0.001 + 0.02 * random.uniform(),
                                                     .gamma = 1 + 3 * random.uniform()}));
  }
  if (random.chance(0.5)) {
    for (std::size_t type = 0; type < cluster.type_count(); ++type) {
      d.portable_slowdown.push_back(1 + random.uniform());
    }
  }
  return std::make_shared<const Application>(std::move(d));
}

// Whether a job can keep to powers of two: one is in its range and within a type that it allows.
inline bool has_power_of_two(const JobSpec& spec, const Cluster& cluster) {
  int most = 0;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    if (spec.allows(DeviceTypeId(type))) most = std::max(most, cluster.capacity().of[type]);
  }
  most = std::min(most, spec.mode == ElasticMode::kRigid ? spec.smallest() : spec.max_devices);
  return std::bit_ceil(static_cast<unsigned>(spec.smallest())) <= static_cast<unsigned>(most);
}

// What the jobs of a world have in common.
struct RandomCustoms {
  std::vector<ApplicationPtr> applications;  // several jobs train the same
  bool priorities = false;
};

inline WorkloadJob random_job(Random& random, const Cluster& cluster, const RandomCustoms& customs,
                              std::size_t index, Seconds submit_s) {
  int largest = 0;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    largest = std::max(largest, cluster.capacity().of[type]);
  }
  WorkloadJob job;
  JobSpec& spec = job.spec;
  spec.id = JobId(index);
  spec.name = "job" + std::to_string(index);
  spec.submit_s = submit_s;
  if (customs.priorities && random.chance(0.6)) {
    constexpr std::array kPriorities{-1000, -1, 1, 60, 1000};
    spec.priority = kPriorities[random.below(kPriorities.size())];
  }
  spec.requested_devices = random.between(1, largest);
  spec.min_devices = random.between(1, spec.requested_devices);
  spec.max_devices = random.between(spec.requested_devices, largest);
  if (random.chance(0.2)) spec.resize_cost_s = random.between(0, 20);
  if (random.chance(0.5)) {
    spec.mode = random.chance(0.5) ? ElasticMode::kRigid : ElasticMode::kConsistent;
    job.duration_s = 1 + 200 * random.uniform();
  } else {
    job.application =
        customs.applications[random.below(static_cast<std::uint32_t>(customs.applications.size()))];
    if (random.chance(0.7)) spec.epochs = job.application->epochs();
    spec.application = job.application->name();
    spec.batch = job.application->batch();
    spec.requested_batch = 32LL << random.below(5);
    const int which = random.between(0, 2);
    spec.mode = which == 0   ? ElasticMode::kRigid
                : which == 1 ? ElasticMode::kConsistent
                             : ElasticMode::kAdaptive;
    // No more devices than the smallest micro-batch allows.
    const auto fed = static_cast<int>(std::max<std::int64_t>(
        1, (spec.mode == ElasticMode::kAdaptive ? spec.batch.max : spec.requested_batch) /
               spec.batch.min_local));
    spec.max_devices = std::min(spec.max_devices, fed);
    spec.requested_devices = std::min(spec.requested_devices, spec.max_devices);
    spec.min_devices = std::min(spec.min_devices, spec.requested_devices);
  }
  // Some consistent jobs have logical workers, and some of these may use several types at once.
  if (job.application && spec.mode == ElasticMode::kConsistent && random.chance(0.6)) {
    spec.logical_workers = spec.max_devices;
    while (spec.requested_batch % spec.logical_workers != 0 ||
           spec.requested_batch / spec.logical_workers > spec.batch.max_local) {
      ++spec.logical_workers;
    }
    spec.mixes_types = random.chance(0.5);
    if (spec.mixes_types) {
      spec.max_devices = std::min(spec.logical_workers, cluster.devices());
    }
  }
  // Some jobs are limited to one type, if it is large enough.
  if (cluster.type_count() > 1 && random.chance(0.3)) {
    const DeviceTypeId type(static_cast<std::size_t>(random.below(2)));
    if (cluster.capacity()[type] >= spec.requested_devices) spec.allowed_types = 1U << type.value;
  }
  if (random.chance(0.25)) spec.power_of_two_sizes = has_power_of_two(spec, cluster);
  spec.round_to_sizes();
  return job;
}

inline RandomWorld random_world(std::uint64_t seed) {
  Random random(seed);
  RandomWorld world;
  world.cluster = random_cluster(random);
  RandomCustoms customs{.applications = {}, .priorities = random.chance(0.5)};
  const int applications = random.between(1, 3);
  for (int i = 0; i < applications; ++i) {
    customs.applications.push_back(random_application(random, world.cluster, i));
  }
  const int jobs = random.between(1, 10);
  Seconds now = 0;
  for (int i = 0; i < jobs; ++i) {
    if (!random.chance(0.2)) now += std::floor(random.exponential(30) * 10) / 10;
    world.workload.jobs.push_back(
        random_job(random, world.cluster, customs, static_cast<std::size_t>(i), now));
  }
  world.workload.name = "random";
  SimOptions& options = world.options;
  options.seed = seed;
  options.law.exponent = 1.0;  // so that device-seconds equal work
  if (random.chance(0.4)) options.round_s = random.between(5, 60);
  options.resize.stop_s = random.chance(0.3) ? 0 : random.between(1, 30);
  if (random.chance(0.4)) options.resize.stop_free_s = random.uniform();
  if (random.chance(0.3)) {
    // A node goes down and comes back.
    const NodeId node(static_cast<std::size_t>(
        random.below(static_cast<std::uint32_t>(world.cluster.nodes().size()))));
    const Seconds down = 100 * random.uniform();
    options.node_events = {{down, node, true}, {down + 200 * random.uniform(), node, false}};
  }
  if (random.chance(0.3)) {
    if (random.chance(0.5)) options.give_back_s = 1 + 20 * random.uniform();
    const int taken = random.between(0, world.cluster.capacity().of[0]);
    const Seconds from = 100 * random.uniform();
    options.serving_load = {{from, DeviceTypeId(0), taken},
                            {from + 200 * random.uniform(), DeviceTypeId(0), 0}};
  }
  return world;
}

}  // namespace rubato
