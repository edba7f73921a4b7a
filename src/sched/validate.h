// Checks a plan against the rules that hold for every policy. A plan that breaks a rule is a bug in
// the policy: it is reported with the name of the rule and never executed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sched/policy.h"

namespace rubato {

enum class PlanFault {
  kWrongJobCount,      // not exactly one grant per job
  kWrongJob,           // a grant is not for the job at its position
  kNegativeDevices,    // a count below 0
  kTypeNotAllowed,     // devices of a type that does not exist or that the job does not allow
  kMixedTypes,         // devices of several types for a job that cannot mix them
  kBelowMinimum,       // some devices, but fewer than the job's minimum
  kAboveMaximum,       // more devices than the job's maximum
  kRigidResized,       // a rigid job with a different count than requested
  kTooManyDevices,     // more devices of a type than are usable
  kBatchNotAllowed,    // a batch outside the job's limits, or a different one for a job whose batch
                       // is fixed
  kUnknownNode,        // a fixed node that does not exist or has no devices of that type
  kNodeListedTwice,    // the same node twice in one grant
  kNodesDisagree,      // the fixed nodes do not add up to the granted counts
  kNodeOvercommitted,  // more devices of a node than are usable there
  kBadRejection,       // turned away although it ran before or is granted devices
  kBadPlacementOrder,  // placement_order is not a permutation of the grants
};
std::string_view name(PlanFault fault);

struct PlanError {
  PlanFault fault;
  std::string message;  // names the job and the numbers
};

// No error if the plan is valid. Linear in jobs, fixed nodes and cluster nodes.
std::optional<PlanError> validate(const Plan& plan, const PolicyInput& input);

}  // namespace rubato
