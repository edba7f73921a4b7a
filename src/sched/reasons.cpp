#include "sched/reasons.h"

namespace rubato {

std::string_view code(Reason reason) {
  switch (reason) {
    case Reason::kStarted:
      return "started";
    case Reason::kKept:
      return "kept";
    case Reason::kGrown:
      return "grown";
    case Reason::kShrunk:
      return "shrunk";
    case Reason::kFewer:
      return "fewer";
    case Reason::kMoved:
      return "moved";
    case Reason::kPinned:
      return "pinned";
    case Reason::kSlowerOnMore:
      return "slower-on-more";
    case Reason::kLogicalWorkers:
      return "logical-workers";
    case Reason::kRangeChanged:
      return "range-changed";
    case Reason::kCutToSize:
      return "cut-to-size";
    case Reason::kWaitsForDevices:
      return "waits-for-devices";
    case Reason::kTooFewUsable:
      return "too-few-usable";
    case Reason::kWaitsBehind:
      return "waits-behind";
    case Reason::kHeldBack:
      return "held-back";
    case Reason::kPreempted:
      return "preempted";
    case Reason::kNodeDown:
      return "node-down";
    case Reason::kReclaimed:
      return "reclaimed";
    case Reason::kNotWorthwhile:
      return "not-worthwhile";
    case Reason::kRejected:
      return "rejected";
    case Reason::kTenantShare:
      return "tenant-share";
    case Reason::kTenantQuota:
      return "tenant-quota";
  }
  return "?";
}

std::string_view explanation(Reason reason) {
  switch (reason) {
    case Reason::kStarted:
      return "it got devices";
    case Reason::kKept:
      return "nothing changed";
    case Reason::kGrown:
      return "it got more devices";
    case Reason::kShrunk:
      return "it gave devices to other jobs";
    case Reason::kFewer:
      return "the policy took devices from it and leaves them idle for now";
    case Reason::kMoved:
      return "it moved to other nodes";
    case Reason::kPinned:
      return "its owner pinned its number of devices";
    case Reason::kSlowerOnMore:
      return "it was measured to be slower on more devices";
    case Reason::kLogicalWorkers:
      return "it cannot use more devices than it has logical workers";
    case Reason::kRangeChanged:
      return "its range of devices was changed";
    case Reason::kCutToSize:
      return "it may only use certain numbers of devices, and the next one is below";
    case Reason::kWaitsForDevices:
      return "not enough devices are free for its smallest size";
    case Reason::kTooFewUsable:
      return "its smallest size needs more devices than are usable now";
    case Reason::kWaitsBehind:
      return "a job ahead of it waits for the free devices";
    case Reason::kHeldBack:
      return "the policy leaves the free devices idle for now";
    case Reason::kPreempted:
      return "other jobs got its devices";
    case Reason::kNodeDown:
      return "its node was lost";
    case Reason::kReclaimed:
      return "its devices were reserved for something else";
    case Reason::kNotWorthwhile:
      return "the policy prefers the jobs that hold the devices";
    case Reason::kRejected:
      return "it was turned away: there was no room for its smallest size";
    case Reason::kTenantShare:
      return "its tenant uses its share of the devices, and other tenants use the rest";
    case Reason::kTenantQuota:
      return "its tenant may not hold more devices";
  }
  return "?";
}

std::optional<Reason> reason_of_code(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(kLastReason); ++i) {
    if (code(static_cast<Reason>(i)) == text) return static_cast<Reason>(i);
  }
  return std::nullopt;
}

}  // namespace rubato
