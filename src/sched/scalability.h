// The Job Scalability Analyzer of elastic DP (PAPERS section 1) as a policy sees it: what a job is
// worth on k devices if the batch may be chosen together with k.
//
//   rate(b, k) = b / t_update(b, k)           from profiled step times, packed on few nodes
//   S(b, k)    = rate(b, k) / rate(b_ref, 1)  b_ref: the largest batch that fits one device
//   b_opt(k)   = argmax of S(b, k)            over the batches the job allows, ceil(b / k) <=
//                                             max_local
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sched/policy.h"

namespace rubato {

// Total batches a job may train with. 0 to 0: the job has no batches.
struct BatchRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool operator==(const BatchRange&) const = default;
};

// What the job itself allows: the whole range if it is adaptive, otherwise the batch it requested.
BatchRange allowed_batches(const JobSpec& spec);

// Device counts a job may use with these batches, within its own range: at least as many as hold
// the smallest batch without accumulation (ceil(low / max_local)), at most as many as the largest
// batch keeps busy (high / min_local). If the job's range contradicts that, its range wins, and
// gradients are accumulated or micro-batches become smaller.
struct SizeRange {
  int low = 1;
  int high = 1;
};
SizeRange sizes_for(const JobSpec& spec, const BatchRange& batches);

// One job on one device type.
struct Scalability {
  struct At {
    double speedup = 0;      // S(b_opt(k), k)
    std::int64_t batch = 0;  // b_opt(k); 0 for jobs without batches
  };
  SizeRange sizes;     // if low > high, the type is too small for the job
  std::vector<At> at;  // by devices, from sizes.low on

  bool possible() const { return !at.empty(); }
  const At& on(int devices) const { return at[static_cast<std::size_t>(devices - sizes.low)]; }
};

// Tables per job and type, computed on first use and shared by jobs of the same kind. A job without
// profiled times is assumed to scale perfectly. Speedups on every type are relative to one device
// of the first type that the job allows, so faster types are worth more. If there are at most
// `kBatchSteps` micro-batches between the limits, all are tried; otherwise that many, evenly spaced
// in the logarithm. O(kBatchSteps) predictions per kind of job and device count.
class ScalabilityAnalyzer {
 public:
  static constexpr int kBatchSteps = 48;

  // A job keeps the batches of its first call. Larger device counts than `largest` are not
  // considered; it must be the same in every call for a type.
  const Scalability& of(const JobState& job, DeviceTypeId type, int largest,
                        const BatchRange& batches, const Cluster& cluster);
  void forget(JobId job) { by_job_.erase(job); }
  // Forgets jobs that ended.
  void forget(std::span<const FinishedJob> finished);

 private:
  struct Kind {
    const SpeedModel* profiled;
    BatchLimits limits;
    BatchRange batches;
    SizeRange sizes;
    std::uint32_t allowed_types;
    DeviceTypeId type;
    std::weak_ptr<const Scalability> table;  // expires with the last job of the kind
  };

  std::unordered_map<JobId, std::array<std::shared_ptr<const Scalability>, kMaxDeviceTypes>>
      by_job_;
  std::vector<Kind> kinds_;
};

}  // namespace rubato
