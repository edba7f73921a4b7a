// What the scheduler knows about one active job.
#pragma once

#include <memory>

#include "model/job.h"
#include "model/learned.h"
#include "model/speed.h"
#include "sched/allocation.h"

namespace rubato {

// How much work is left. In the simulator this is an oracle. Only policies that declare the need
// for it in their registration receive it.
class RemainingWork {
 public:
  virtual ~RemainingWork() = default;
  // Seconds left if the job ran on its requested devices, packed on as few nodes as possible, with
  // its requested batch.
  virtual Seconds seconds_at_request(Seconds now_s) const = 0;
  // Optimizer updates left at this total batch.
  virtual double updates(std::int64_t batch, Seconds now_s) const = 0;
};

// What a running job reports about itself. This is not an oracle: every training loop knows it.
class ObservedProgress {
 public:
  virtual ~ObservedProgress() = default;
  // Epochs trained so far, including the fraction of the current one; 0 for jobs that do not count
  // epochs.
  virtual double epochs_done(Seconds now_s) const = 0;
  // Training samples processed so far.
  virtual double samples_done(Seconds now_s) const = 0;
};

// The facts that explain a decision about a job. Only devices that the job could use count as free
// or usable: of a type that it allows, and all of one type unless it can mix them.
struct DecisionFacts {
  int before = 0;     // devices it had
  int after = 0;      // devices it has
  int needs = 0;      // the fewest devices that it can run on
  int free = 0;       // devices that no job has after the decision
  int usable = 0;     // devices that jobs can be given at all
  int to_others = 0;  // devices it lost and others got
  bool operator==(const DecisionFacts&) const = default;
};

struct JobState {
  JobSpec spec;
  Allocation allocation;
  // Facts of the decision behind its current devices, or of the latest one while it waits.
  Reason reason = Reason::kWaitsForDevices;
  DecisionFacts facts;

  Seconds changed_at_s = 0;             // when the allocation last changed, if only in its batch
  Seconds resized_at_s = 0;             // when it last got, lost or changed devices
  Seconds executed_until_change_s = 0;  // seconds with devices before that change
  double service_until_change = 0;      // device-seconds before that change
  int starts = 0;                       // times it got devices while it had none
  int resizes = 0;                      // times its devices changed while it was running

  // Speed known in advance (a measured table or a stated law); null if nothing is known.
  const SpeedModel* profiled = nullptr;
  // Speed learned from live reports; null for jobs without batches.
  LearnedModel* learned = nullptr;
  // Expected cost of changing its devices.
  Seconds resize_cost_s = 0;
  // Never null.
  const ObservedProgress* progress = nullptr;
  // Only for policies that declared Knowledge::kRemainingWork; null otherwise.
  const RemainingWork* remaining = nullptr;

  bool running() const { return !allocation.empty(); }
  Seconds executed_s(Seconds now_s) const {
    return executed_until_change_s + (running() ? now_s - changed_at_s : 0);
  }
  double attained_service(Seconds now_s) const {
    return service_until_change + (running() ? (now_s - changed_at_s) * allocation.devices() : 0);
  }
};

}  // namespace rubato
