// Why a job has what it has. One enum for command line, API, metrics and docs.
#pragma once

#include <string>
#include <string_view>

namespace rubato {

enum class Reason {
  kStarted,          // got its first devices, or devices again
  kKept,             // nothing changed
  kGrown,            // more devices than before
  kShrunk,           // fewer devices than before
  kMoved,            // as many devices, on other nodes
  kWaitsForDevices,  // not enough free devices for its smallest size
  kWaitsBehind,      // free devices exist, but a job ahead of it in the policy's order needs them
  kPreempted,        // gave its devices to a job that the policy prefers
  kNodeDown,         // its node was lost
  kReclaimed,        // its devices were taken for serving
  kNotWorthwhile,    // the policy expects more from other jobs
  kRejected,         // turned away for good: the policy has no room for it
  kTenantShare,      // its tenant has its share, and others use the rest
  kTenantQuota,      // its tenant may not hold more devices
};

std::string_view code(Reason reason);         // stable, for machines: "waits-for-devices"
std::string_view explanation(Reason reason);  // a sentence for people

}  // namespace rubato
