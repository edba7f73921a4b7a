// What the policy `sia` knows about the goodput of a job on every device type.
//
// Sia profiles a job on one device of each type when it arrives, with about ten micro-batch sizes.
// Here these few step times come from JobState::profiled, which is never asked for a time on more
// than one device. Everything else is learned from the job's own reports. The goodput on `devices`
// of a type comes from
//  - a fit to the profile and the reports of that type, if the job was seen there on several
//    devices;
//  - otherwise, if it was seen on several devices of another type: the goodput of one device here x
//    (goodput on this many devices there / goodput of one device there);
//  - otherwise the profile alone: synchronisation is assumed to cost nothing.
// Without a profile (a live job, or `profile=false`), a type that was never used is assumed to be
// as fast as a used one. Policies that declare no knowledge of speeds are always in that position:
// compare them with both variants.
#pragma once

#include <memory>
#include <unordered_map>

#include "sched/policy.h"

namespace rubato {

class SiaGoodput {
 public:
  // `profiled`: whether to use JobState::profiled.
  explicit SiaGoodput(bool profiled) : profiled_(profiled) {}

  // Learns from what happened since the last decision. Every decision must call this first.
  void observe(const PolicyInput& input);

  // In samples per second, each worth a sample of the initial batch (in any unit for jobs without
  // batches). Only ratios between configurations of one job are meaningful. 0: the job cannot run
  // there. The job must be in the last observed input; nodes and devices must be at least 1.
  double goodput(const JobState& job, DeviceTypeId type, int nodes, int devices) const;
  // The batch with the best goodput there, for an adaptive job that has reported; 0: the job
  // chooses.
  std::int64_t batch(const JobState& job, DeviceTypeId type, int nodes, int devices) const;

 private:
  struct Memory {
    explicit Memory(BatchLimits limits) : model(limits) {}
    LearnedModel model;                               // from the profile and the reports
    std::size_t revision = 0;                         // of the job's reports that `model` has seen
    std::array<int, kMaxDeviceTypes> most_devices{};  // that it was seen on
  };
  void profile(const JobState& job, Memory& memory, const Cluster& cluster) const;
  static double at(const Memory& memory, const JobSpec& spec, DeviceTypeId type, int nodes,
                   int devices);

  bool profiled_;
  std::unordered_map<JobId, std::unique_ptr<Memory>> memory_;
};

}  // namespace rubato
