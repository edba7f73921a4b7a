#include "sched/validate.h"

#include <fmt/format.h>

#include <algorithm>

namespace rubato {

namespace {

using MaybeError = std::optional<PlanError>;

PlanError fault(PlanFault kind, const JobState& job, std::string_view detail) {
  return {kind, fmt::format("{}: job '{}': {}", name(kind), job.spec.name, detail)};
}

MaybeError check_counts(const Grant& grant, const JobState& job, const Cluster& cluster) {
  const JobSpec& spec = job.spec;
  int types = 0;
  int total = 0;
  for (std::size_t i = 0; i < kMaxDeviceTypes; ++i) {
    const int count = grant.devices.of[i];
    if (count == 0) continue;
    if (count < 0) {
      return fault(PlanFault::kNegativeDevices, job, fmt::format("{} devices", count));
    }
    if (i >= cluster.type_count() || !spec.allows(DeviceTypeId(i))) {
      return fault(PlanFault::kTypeNotAllowed, job, fmt::format("{} devices of type {}", count, i));
    }
    ++types;
    total += count;
  }
  if (total == 0) return std::nullopt;
  if (types > 1 && !spec.mixes_types) {
    return fault(PlanFault::kMixedTypes, job, fmt::format("{} types", types));
  }
  if (spec.mode == ElasticMode::kRigid && total != spec.requested_devices) {
    return fault(PlanFault::kRigidResized, job,
                 fmt::format("{} devices, requested {}", total, spec.requested_devices));
  }
  if (total < spec.min_devices) {
    return fault(PlanFault::kBelowMinimum, job,
                 fmt::format("{} devices, minimum {}", total, spec.min_devices));
  }
  if (total > spec.max_devices) {
    return fault(PlanFault::kAboveMaximum, job,
                 fmt::format("{} devices, maximum {}", total, spec.max_devices));
  }
  return std::nullopt;
}

MaybeError check_batch(const Grant& grant, const JobState& job) {
  if (grant.batch == 0) return std::nullopt;
  const JobSpec& spec = job.spec;
  const bool allowed = spec.mode == ElasticMode::kAdaptive
                           ? grant.batch >= spec.batch.initial && grant.batch <= spec.batch.max
                           : grant.batch == spec.requested_batch;
  if (allowed) return std::nullopt;
  return fault(
      PlanFault::kBatchNotAllowed, job,
      fmt::format("batch {}, allowed {} to {} (requested {}, mode {})", grant.batch,
                  spec.batch.initial, spec.batch.max, spec.requested_batch, to_string(spec.mode)));
}

MaybeError check_rejection(const Grant& grant, const JobState& job) {
  if (!grant.rejected) return std::nullopt;
  const bool granted = grant.devices.total() > 0 || grant.nodes.has_value();
  if (!granted && job.starts == 0) return std::nullopt;
  return fault(PlanFault::kBadRejection, job,
               granted ? fmt::format("turned away, but granted {} devices", grant.devices.total())
                       : fmt::format("turned away after {} starts", job.starts));
}

MaybeError check_nodes(const Grant& grant, const JobState& job, const Cluster& cluster,
                       std::vector<int>& used) {
  DeviceCounts placed;
  for (auto share = grant.nodes->begin(); share != grant.nodes->end(); ++share) {
    if (!share->node.valid() || share->node.index() >= cluster.nodes().size()) {
      return fault(PlanFault::kUnknownNode, job, fmt::format("node {}", share->node.value));
    }
    if (grant.devices[cluster.node(share->node).type] == 0) {
      return fault(PlanFault::kUnknownNode, job,
                   fmt::format("node {} has no devices of the granted type", share->node.value));
    }
    if (share->devices <= 0) {
      return fault(PlanFault::kNegativeDevices, job,
                   fmt::format("{} devices on node {}", share->devices, share->node.value));
    }
    if (std::any_of(grant.nodes->begin(), share,
                    [&](const NodeShare& other) { return other.node == share->node; })) {
      return fault(PlanFault::kNodeListedTwice, job, fmt::format("node {}", share->node.value));
    }
    placed[cluster.node(share->node).type] += share->devices;
    used[share->node.index()] += share->devices;
  }
  if (placed != grant.devices) {
    return fault(PlanFault::kNodesDisagree, job,
                 fmt::format("{} devices granted, {} on the fixed nodes", grant.devices.total(),
                             placed.total()));
  }
  return std::nullopt;
}

MaybeError check_order(const Plan& plan) {
  if (plan.placement_order.empty()) return std::nullopt;
  std::vector<char> seen(plan.grants.size(), 0);
  for (const std::size_t index : plan.placement_order) {
    if (index >= seen.size() || seen[index] != 0) {
      return PlanError{PlanFault::kBadPlacementOrder,
                       fmt::format("{}: index {}", name(PlanFault::kBadPlacementOrder), index)};
    }
    seen[index] = 1;
  }
  if (plan.placement_order.size() == seen.size()) return std::nullopt;
  return PlanError{PlanFault::kBadPlacementOrder,
                   fmt::format("{}: {} of {} grants", name(PlanFault::kBadPlacementOrder),
                               plan.placement_order.size(), seen.size())};
}

}  // namespace

std::string_view name(PlanFault fault) {
  switch (fault) {
    case PlanFault::kWrongJobCount:
      return "wrong-job-count";
    case PlanFault::kWrongJob:
      return "wrong-job";
    case PlanFault::kNegativeDevices:
      return "negative-devices";
    case PlanFault::kTypeNotAllowed:
      return "type-not-allowed";
    case PlanFault::kMixedTypes:
      return "mixed-types";
    case PlanFault::kBelowMinimum:
      return "below-minimum";
    case PlanFault::kAboveMaximum:
      return "above-maximum";
    case PlanFault::kRigidResized:
      return "rigid-resized";
    case PlanFault::kTooManyDevices:
      return "too-many-devices";
    case PlanFault::kBatchNotAllowed:
      return "batch-not-allowed";
    case PlanFault::kUnknownNode:
      return "unknown-node";
    case PlanFault::kNodeListedTwice:
      return "node-listed-twice";
    case PlanFault::kNodesDisagree:
      return "nodes-disagree";
    case PlanFault::kNodeOvercommitted:
      return "node-overcommitted";
    case PlanFault::kBadRejection:
      return "bad-rejection";
    case PlanFault::kBadPlacementOrder:
      return "bad-placement-order";
  }
  return "?";
}

std::optional<PlanError> validate(const Plan& plan, const PolicyInput& input) {
  if (plan.grants.size() != input.jobs.size()) {
    return PlanError{PlanFault::kWrongJobCount,
                     fmt::format("{}: {} grants for {} jobs", name(PlanFault::kWrongJobCount),
                                 plan.grants.size(), input.jobs.size())};
  }
  DeviceCounts granted;
  std::vector<int> used;
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    const Grant& grant = plan.grants[i];
    const JobState& job = *input.jobs[i];
    if (grant.job != job.spec.id) {
      return fault(PlanFault::kWrongJob, job,
                   fmt::format("the grant at its position is for job {}", grant.job.value));
    }
    if (auto error = check_counts(grant, job, input.cluster)) return error;
    if (auto error = check_batch(grant, job)) return error;
    if (auto error = check_rejection(grant, job)) return error;
    for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
      granted.of[type] += grant.devices.of[type];
    }
    if (!grant.nodes) continue;
    if (used.empty()) used.resize(input.cluster.nodes().size());
    if (auto error = check_nodes(grant, job, input.cluster, used)) return error;
  }
  for (std::size_t type = 0; type < kMaxDeviceTypes; ++type) {
    if (granted.of[type] <= input.usable_by_type.of[type]) continue;
    return PlanError{PlanFault::kTooManyDevices,
                     fmt::format("{}: {} devices of type {} granted, {} usable",
                                 name(PlanFault::kTooManyDevices), granted.of[type], type,
                                 input.usable_by_type.of[type])};
  }
  for (std::size_t node = 0; node < used.size(); ++node) {
    if (used[node] <= input.usable[node]) continue;
    return PlanError{
        PlanFault::kNodeOvercommitted,
        fmt::format("{}: {} devices of node {} granted, {} usable",
                    name(PlanFault::kNodeOvercommitted), used[node], node, input.usable[node])};
  }
  return check_order(plan);
}

}  // namespace rubato
