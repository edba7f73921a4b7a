// What the policy `sia` knows about the goodput of a job on every device type.
//
// Sia profiles a job on one device of each type when it arrives, with about ten micro-batch sizes.
// Here these few step times come from JobState::profiled; no time on more than one device is ever
// asked from it. Everything else is learned from the job's own reports. The goodput on `devices` of
// a type is
//  - from a fit to the profile and the reports of that type, if the job was seen there on several
//    devices;
//  - else, if it was seen on several devices of another type, goodput of one device here x (goodput
//    on so many devices there / goodput of one device there);
//  - else from the profile alone: synchronising is assumed to cost nothing.
// Without a profile (a live job, or `profile=false`), a type that was never used is taken for as
// fast as a used one. Policies that declare no knowledge of speeds are in that position always:
// compare them with both.
#pragma once

#include <memory>
#include <unordered_map>

#include "sched/policy.h"

namespace rubato {

class SiaGoodput {
 public:
  // `profiled`: whether to use JobState::profiled.
  explicit SiaGoodput(bool profiled) : profiled_(profiled) {}

  // Learns from what happened since the last decision; call first.
  void observe(const PolicyInput& input);

  // In samples of the initial batch's worth per second (jobs without batches: in any unit); only
  // ratios between configurations of one job mean anything. 0: it cannot run there. Job and devices
  // must be of the last observed input and at least 1.
  double goodput(const JobState& job, DeviceTypeId type, int nodes, int devices) const;
  // The batch with the best goodput there, for an adaptive job that has reported; 0: its own
  // choice.
  std::int64_t batch(const JobState& job, DeviceTypeId type, int nodes, int devices) const;

 private:
  struct Memory {
    explicit Memory(BatchLimits limits) : model(limits) {}
    LearnedModel model;  // of the profile and the reports
    std::array<std::size_t, kMaxDeviceTypes> copied{};
    std::array<int, kMaxDeviceTypes> most_devices{};  // seen running
  };
  void profile(const JobState& job, Memory& memory, const Cluster& cluster) const;
  static double at(const Memory& memory, const JobSpec& spec, DeviceTypeId type, int nodes,
                   int devices);

  bool profiled_;
  std::unordered_map<JobId, std::unique_ptr<Memory>> memory_;
};

}  // namespace rubato
