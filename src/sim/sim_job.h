// One simulated job: its true speed and progress, advanced from event to event.
#pragma once

#include <memory>
#include <optional>

#include "model/learned.h"
#include "sched/scheduler.h"
#include "sim/workload.h"

namespace rubato {

// Deviations of published artifacts from the plain simulation. Each is off by default unless the
// format of the workload says otherwise (see docs/fidelity.md).
struct Quirks {
  bool whole_second_epochs = false;  // an epoch ends at a whole second
  bool whole_epoch_remaining =
      false;  // remaining updates count from the end of the current epoch, at least 1
};

// Progress is piecewise linear: within an epoch and under one allocation, the rate is constant. A
// job with a recorded duration is one epoch long. Invariant: the state is exact for time `at_s()`,
// and advance() never goes backwards.
class SimJob final : public RemainingWork, public ObservedProgress {
 public:
  // `speed` must belong to the job's application and outlive the job; null for recorded durations.
  SimJob(const WorkloadJob& job, const Cluster& cluster, const SpeedModel* speed, ScalingLaw law,
         Quirks quirks);

  const WorkloadJob& job() const { return job_; }
  JobKnowledge knowledge();

  // Changes the devices (possibly to none). The job makes no progress for the next `pause_s`
  // seconds.
  void set_allocation(const Allocation& allocation, Seconds now_s, Seconds pause_s);
  // Slowdown caused by neighbours: 0 for none, 0.5 for half speed.
  void set_interference(double share, Seconds now_s);
  // Advances to now_s, passing any epoch ends on the way.
  void advance(Seconds now_s);
  // The job reports its measurements, and an adaptive job reconsiders its batch. Called at every
  // scheduling round.
  void reconsider_batch(Seconds now_s);

  bool running() const { return !allocation_.empty(); }
  bool finished() const { return epoch_ == epochs_; }
  Seconds finish_s() const { return at_s_; }
  // When the job next changes by itself, because its pause or its epoch ends. Infinity if it does
  // not run.
  Seconds next_event_s() const;
  // Devices that compute right now: none during a pause; time spent synchronising does not count.
  double useful_devices(Seconds now_s) const;
  double lost_device_s() const { return lost_device_s_; }
  // Share of the job's work that is done, 0..1.
  double done_share() const { return progress_ / target(epochs_); }

  Seconds seconds_at_request(Seconds now_s) const override;
  double updates(std::int64_t batch, Seconds now_s) const override;
  double epochs_done(Seconds now_s) const override;
  double samples_done(Seconds now_s) const override;
  // Time that the whole job would take alone on this many devices at its requested batch.
  Seconds isolated_s(int devices) const;

 private:
  double target(int epoch) const;  // progress at which `epoch` epochs are complete
  double progress_at(Seconds now_s) const;
  // Progress per second during an epoch, given the seconds and samples of an update.
  double rate(int epoch, Seconds update_s, double batch) const;
  // Duration of an epoch on these devices of one type at the requested batch.
  Seconds epoch_s(int epoch, const Placement& placement) const;
  double total_batch(const BatchShape& shape, int devices) const;
  double samples_per_s() const;
  void choose_batch();
  void refresh_rate();
  void report();

  const WorkloadJob& job_;
  const Cluster& cluster_;
  const SpeedModel* speed_;
  std::unique_ptr<SpeedModel> own_speed_;  // only for a recorded duration
  std::optional<LearnedModel> learned_;
  Quirks quirks_;
  int epochs_;
  DeviceTypeId reference_type_;  // type on which requested and isolated times are measured

  Allocation allocation_;
  Placement placement_;
  BatchShape shape_;
  StepTime step_;         // of a micro-batch
  Seconds update_s_ = 0;  // of an optimizer update
  double computing_ = 0;  // share of the devices' time spent computing
  double interference_ = 0;
  double rate_ = 0;

  int epoch_ = 0;
  double progress_ = 0;
  double samples_ = 0;
  Seconds at_s_ = 0;      // time for which the state is exact
  Seconds resume_s_ = 0;  // end of the pause
  bool trained_ = false;  // whether it has trained since the batch was last considered
  double lost_device_s_ = 0;
  mutable std::vector<Seconds> left_at_request_s_;  // after each epoch, on the requested devices
};

}  // namespace rubato
