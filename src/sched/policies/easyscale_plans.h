// The plans of one job under `easyscale`: how fast it would run on given devices.
#pragma once

#include <map>
#include <unordered_map>

#include "model/logical_workers.h"
#include "sched/policy.h"
#include "sched/speedup.h"

namespace rubato::easyscale {

struct Outcome {
  double speed = 0;  // updates per second
  double waste = 0;  // unused share of the devices' speed
};

// A job in a decision, with the devices planned for it so far.
struct Holder {
  const JobState* job = nullptr;
  std::size_t index = 0;  // into the input's jobs
  int smallest = 1;
  int most = 1;
  bool mixes = false;
  std::uint32_t types = 0;  // one bit per type that it may use
  double waste = 0;         // largest waste that its plans may have
  double updates_left = 0;  // estimated
  double urgency = 1;       // weight of this job's gains, relative to other jobs
  DeviceCounts current;
  DeviceCounts devices;

  bool holds() const { return devices.total() > 0; }
  bool may_use(std::size_t type) const { return (types >> type & 1U) != 0; }
  bool too_wasteful(const Outcome& outcome) const { return outcome.waste > waste + 1e-9; }
};

// Logical workers of the job, or one for each requested device if it has none.
int workers_of(const JobSpec& spec);

class JobPlans {
 public:
  struct Options {
    double waste = 0.30;  // largest waste of a plan, unless the job's range allows no other
    bool communication = true;
  };
  explicit JobPlans(Options options) : options_(options) {}

  // Every decision must call this first.
  void observe(const PolicyInput& input);

  Outcome outcome(const JobState& job, const DeviceCounts& devices);
  double speed(const Holder& holder) { return outcome(*holder.job, holder.devices).speed; }
  // The largest waste that this job's plans may have: as configured, unless its range allows no
  // such plan.
  double allowed_waste(const Holder& holder);
  // The fewest devices of one type that are not wasteful; 0: there is no such plan.
  int smallest_plan(const Holder& holder, std::size_t type);
  // The speed of the best plan on at most this many devices of the type; 0: there is no plan.
  double promise(const Holder& holder, std::size_t type, int devices);

  RequestedBatchSpeed& one_type() { return one_type_; }

 private:
  Outcome compute(const JobState& job, const DeviceCounts& devices);

  Options options_;
  const Cluster* cluster_ = nullptr;
  RequestedBatchSpeed one_type_;
  std::unordered_map<JobId, std::map<std::array<int, kMaxDeviceTypes>, Outcome>> known_;
};

}  // namespace rubato::easyscale
