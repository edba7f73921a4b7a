// One active job as the scheduler sees it: its spec, its measured speed and its progress.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/decision_task.h"
#include "control/live_cluster.h"
#include "control/profile.h"
#include "control/state.h"
#include "sched/scheduler.h"

namespace rubato::control {

// The progress of a running job. A value of 0 is not known yet.
struct LiveProgress {
  std::int64_t step = 0;  // steps done
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t batch = 0;  // samples per step
  double samples_done = 0;
  double loss = 0;
  int workers = 0;
  int logical_workers = 0;
  Seconds step_s = 0;

  // Unknown or malformed fields count as 0.
  static LiveProgress from_json(const nlohmann::json& json);
  nlohmann::json to_json() const;
};

class LiveJob final : public ObservedProgress, public RemainingWork {
 public:
  LiveJob(const JobRecord& record, Profile profile, LiveCluster cluster);

  // Call this when the record changed (range, grant). Updates what the scheduler sees.
  void refresh(const JobRecord& record, Seconds now_s);
  // The job has other devices from now on.
  void place(std::vector<int> per_node) { per_node_ = std::move(per_node); }
  // Type of the devices that its profile is about.
  const std::string& device_type() const { return type_; }
  // Records a progress report and the measurements in it.
  // Its workers are on so many nodes.
  Profile::News report(const LiveProgress& progress, double now, int nodes = 1);
  // Records how long a new worker of the job took to be ready.
  void note_change(Seconds seconds) { profile_.note_change(seconds); }

  // True if the job is capped because more devices made it slower, but that was learned so long ago
  // that they may be tried again.
  bool may_forget_cap(double now) const;

  const JobSpec& spec() const { return spec_; }
  const Profile& profile() const { return profile_; }
  const LiveProgress& progress() const { return progress_; }
  JobKnowledge knowledge();
  // What a decision in another thread needs to know, as values (decision_task.h).
  KnownJob known() const;

  // The only estimate of remaining work and speed, for policies, ETAs and forecasts.
  // Remaining steps with the current batch; at least one, because the job has not ended. Empty if
  // the job's length is unknown.
  std::optional<std::int64_t> steps_left() const;
  // Measured duration of a step with the current batch on this many devices: where the job has them
  // if it has so many, on as few nodes as possible otherwise. Extrapolated for sizes that were
  // never measured. 0: nothing was measured.
  Seconds step_s(int devices) const;
  // Seconds until the job is done on this many devices; empty if its length or speed is unknown.
  std::optional<Seconds> seconds_left(int devices) const;
  // Before a job that waits does its first step.
  Seconds start_cost() const;

  Seconds seconds_at_request(Seconds now_s) const override;
  double updates(std::int64_t batch, Seconds now_s) const override;
  double epochs_done(Seconds now_s) const override;
  double samples_done(Seconds now_s) const override;

 private:
  void learn();
  // The job runs on devices of another type now: what was measured is not true there.
  void start_anew();
  Placement placement(int devices) const;
  // The model, for a change: a copy if a decision is being made with it.
  LearnedModel& learned();
  // As said by the job itself, else as shown by an earlier job of the program; 0: unknown.
  std::int64_t total_steps() const;
  std::int64_t steps_per_epoch() const;
  int logical_workers(const JobRecord& record) const;
  void cap(int devices, DeviceLimit limit);

  JobDocument document_;
  LiveCluster cluster_;
  std::string type_{};           // see device_type()
  std::vector<int> per_node_{};  // its granted devices
  JobSpec spec_;
  Profile profile_;
  LiveProgress progress_;
  double capped_since_ = 0;                  // as far as this object knows; 0: not capped
  std::shared_ptr<const SpeedModel> speed_;  // null until something was measured
  // Shared with a decision in another thread, which asks it and so fills its memory of results.
  std::shared_ptr<LearnedModel> learned_;
};

}  // namespace rubato::control
