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
    case Reason::kMoved:
      return "moved";
    case Reason::kWaitsForDevices:
      return "waits-for-devices";
    case Reason::kWaitsBehind:
      return "waits-behind";
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
    case Reason::kMoved:
      return "it moved to other nodes";
    case Reason::kWaitsForDevices:
      return "not enough free devices for its smallest size";
    case Reason::kWaitsBehind:
      return "a job ahead of it needs the free devices";
    case Reason::kPreempted:
      return "a job that the policy prefers took its devices";
    case Reason::kNodeDown:
      return "its node was lost";
    case Reason::kReclaimed:
      return "its devices were taken for serving";
    case Reason::kNotWorthwhile:
      return "the policy expects more from giving the devices to other jobs";
    case Reason::kRejected:
      return "it was turned away: there was no room for its smallest size";
    case Reason::kTenantShare:
      return "its tenant uses its share of the devices, and other tenants use the rest";
    case Reason::kTenantQuota:
      return "its tenant holds as many devices as its quota allows";
  }
  return "?";
}

}  // namespace rubato
