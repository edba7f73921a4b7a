// Why a job has what it has. One enum for command line, API, metrics and docs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rubato {

enum class Reason {
  kStarted,          // got its first devices, or devices again
  kKept,             // nothing changed
  kGrown,            // more devices than before
  kShrunk,           // fewer devices than before: other jobs got some in the same decision
  kFewer,            // fewer devices than before, which nobody got
  kMoved,            // as many devices, on other nodes
  kPinned,           // exactly the devices that its owner pinned
  kSlowerOnMore,     // fewer devices than before: more were measured to be slower
  kLogicalWorkers,   // fewer devices than before: it has no more logical workers
  kRangeChanged,     // fewer devices than before: its owner's range changed
  kCutToSize,        // fewer devices than before: the next allowed size below
  kWaitsForDevices,  // not enough free devices for its smallest size
  kTooFewUsable,     // not even all usable devices are enough for its smallest size
  kWaitsBehind,      // enough devices are free, but a job ahead of it waits for more of them
  kHeldBack,         // enough devices are free, and the policy does not use them for it
  kPreempted,        // lost all its devices, and other jobs got some in the same decision
  kNodeDown,         // its node was lost
  kReclaimed,        // its devices were taken for serving
  kNotWorthwhile,    // not enough free devices: the policy prefers the jobs that hold them
  kRejected,         // turned away for good: the policy has no room for it
  kTenantShare,      // its tenant has its share, and other tenants hold the rest
  kTenantQuota,      // its tenant may not hold more devices
};
inline constexpr Reason kLastReason = Reason::kTenantQuota;

std::string_view code(Reason reason);         // stable, for machines: "waits-for-devices"
std::string_view explanation(Reason reason);  // a sentence for people
std::optional<Reason> reason_of_code(std::string_view code);

}  // namespace rubato
