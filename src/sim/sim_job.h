// One simulated job: the truth about its speed and progress, advanced from event to event.
#pragma once

#include <memory>
#include <optional>

#include "model/learned.h"
#include "sched/scheduler.h"
#include "sim/workload.h"

namespace rubato {

// Deviations from the plain simulation that a published artifact has. Each is off by default except
// where the format of the workload says otherwise (see docs/fidelity.md).
struct Quirks {
  bool whole_second_epochs = false;  // an epoch ends at a whole second
  bool whole_epoch_remaining =
      false;  // remaining updates count from the end of the current epoch, at least 1
};

// Progress is piecewise linear: within an epoch and under one allocation the rate is constant. A
// job with a recorded duration is one epoch long. Invariant: the state is exact for time `at_s()`;
// advance() never goes backwards.
class SimJob final : public RemainingWork, public ObservedProgress {
 public:
  // `speed` must outlive the job and belong to its application; null for recorded durations.
  SimJob(const WorkloadJob& job, const Cluster& cluster, const SpeedModel* speed, ScalingLaw law,
         Quirks quirks);

  const WorkloadJob& job() const { return job_; }
  JobKnowledge knowledge();

  // New devices from now on (possibly none); no progress during the first `pause_s`.
  void set_allocation(const Allocation& allocation, Seconds now_s, Seconds pause_s);
  // Slowdown by neighbours: 0 none, 0.5 half speed.
  void set_interference(double share, Seconds now_s);
  // Moves to now_s, through any epoch ends on the way.
  void advance(Seconds now_s);
  // The job reports what it measured, and an adaptive one looks at its batch again; at every
  // scheduling round.
  void reconsider_batch(Seconds now_s);

  bool running() const { return !allocation_.empty(); }
  bool finished() const { return epoch_ == epochs_; }
  Seconds finish_s() const { return at_s_; }
  // When something about this job changes by itself: its pause or its epoch ends. Infinity when it
  // does not run.
  Seconds next_event_s() const;
  // Devices that compute right now: not in a pause, without the share of time spent synchronising.
  double useful_devices(Seconds now_s) const;
  double lost_device_s() const { return lost_device_s_; }
  // Real work done so far relative to all of it, 0..1.
  double done_share() const { return progress_ / target(epochs_); }

  Seconds seconds_at_request(Seconds now_s) const override;
  double updates(std::int64_t batch, Seconds now_s) const override;
  double epochs_done(Seconds now_s) const override;
  double samples_done(Seconds now_s) const override;
  // Time of the whole job, alone on this many devices at its requested batch.
  Seconds isolated_s(int devices) const;

 private:
  double target(int epoch) const;  // progress at which `epoch` epochs are complete
  double progress_at(Seconds now_s) const;
  // Progress per second during an epoch, from the seconds and the samples of an update.
  double rate(int epoch, Seconds update_s, double batch) const;
  // Seconds of an epoch on these devices of one type at the requested batch.
  Seconds epoch_s(int epoch, const Placement& placement) const;
  double total_batch(const BatchShape& shape, int devices) const;
  double samples_per_s() const;
  void choose_batch();
  void refresh_rate();
  void report();

  const WorkloadJob& job_;
  const Cluster& cluster_;
  const SpeedModel* speed_;
  std::unique_ptr<SpeedModel> own_speed_;  // of a recorded duration
  std::optional<LearnedModel> learned_;
  Quirks quirks_;
  int epochs_;
  DeviceTypeId reference_type_;  // on which requested and isolated times are measured

  Allocation allocation_;
  Placement placement_;
  BatchShape shape_;
  StepTime step_;         // of a micro-batch
  Seconds update_s_ = 0;  // of an optimizer update
  double computing_ = 0;  // share of the devices' time
  double interference_ = 0;
  double rate_ = 0;

  int epoch_ = 0;
  double progress_ = 0;
  double samples_ = 0;
  Seconds at_s_ = 0;      // the state is exact for this time
  Seconds resume_s_ = 0;  // end of the pause
  bool trained_ = false;  // since the batch was last considered
  double lost_device_s_ = 0;
  mutable std::vector<Seconds> left_at_request_s_;  // after each epoch, on the requested devices
};

}  // namespace rubato
