#include "sched/policies/doubling.h"

#include <algorithm>

#include "sched/speedup.h"

namespace rubato {

Doubling::Doubling(const PolicyInput& input, Unit unit) : input_(input), unit_(unit) {
  if (unit == Unit::kDevice) {
    capacity_ = input.usable_by_type;
    return;
  }
  for (const Node& node : input.cluster.nodes()) {
    const int full = input.cluster.node_size(node.type);
    if (input.usable[node.id.index()] == full) ++capacity_[node.type];
  }
}

int Doubling::unit_devices(DeviceTypeId type) const {
  return unit_ == Unit::kDevice ? 1 : input_.cluster.node_size(type);
}

std::vector<int> Doubling::sizes(const JobSpec& spec, DeviceTypeId type) const {
  const int unit = unit_devices(type);
  const bool rigid = spec.mode == ElasticMode::kRigid;
  const int smallest = ((rigid ? spec.requested_devices : spec.min_devices) + unit - 1) / unit;
  const int largest = std::min(most_devices_at_requested_batch(spec) / unit, capacity_[type]);
  std::vector<int> all;
  for (int size = 1; size <= largest; size *= 2) {
    if (size >= smallest) all.push_back(size);
  }
  if (rigid || all.empty()) return {smallest};
  return all;
}

int Doubling::devices(const JobSpec& spec, DeviceTypeId type, int size) const {
  if (size == 0) return 0;
  if (spec.mode == ElasticMode::kRigid) return spec.requested_devices;
  return std::clamp(size * unit_devices(type), spec.min_devices, spec.max_devices);
}

DeviceTypeId Doubling::type_of(const JobState& job) const {
  return input_.cluster.node(job.allocation.shares.front().node).type;
}

int Doubling::current(const JobState& job) const {
  if (!job.running()) return 0;
  const int unit = unit_devices(type_of(job));
  return (job.allocation.devices() + unit - 1) / unit;
}

std::vector<DeviceTypeId> Doubling::assign_types() const {
  std::vector<DeviceTypeId> types(input_.jobs.size());
  DeviceCounts room = capacity_;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!input_.jobs[i]->running()) continue;
    types[i] = type_of(*input_.jobs[i]);
    room[types[i]] -= sizes(input_.jobs[i]->spec, types[i]).front();
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const JobState& job = *input_.jobs[i];
    if (job.running()) continue;
    for (std::size_t t = 0; t < input_.cluster.type_count(); ++t) {
      const DeviceTypeId type(t);
      if (!job.spec.allows(type) || capacity_[type] < sizes(job.spec, type).front()) continue;
      if (!types[i].valid() || room[type] > room[types[i]]) types[i] = type;
    }
    if (types[i].valid()) room[types[i]] -= sizes(job.spec, types[i]).front();
  }
  return types;
}

ParamSpec unit_param() {
  return {.name = "unit",
          .default_value = std::string("device"),
          .choices = {"device", "node"},
          .help = "unit in which sizes are counted: devices or whole nodes"};
}

Doubling::Unit unit_of(const Params& params) {
  return params.choice("unit") == "node" ? Doubling::Unit::kNode : Doubling::Unit::kDevice;
}

}  // namespace rubato
