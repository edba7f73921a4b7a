// One active job as the scheduler sees it: its spec, and what it has shown of its speed and
// progress.
#pragma once

#include <memory>
#include <optional>

#include "control/local_executor.h"
#include "control/profile.h"
#include "control/state.h"
#include "sched/scheduler.h"

namespace rubato::control {

// Where a running job is. Zeros: not known yet.
struct LiveProgress {
  std::int64_t step = 0;  // steps done
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t batch = 0;  // samples of a step
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
  LiveJob(const JobRecord& record, Profile profile, const Machine& machine);

  // The record changed (range, grant): what the scheduler is told from now on.
  void refresh(const JobRecord& record, Seconds now_s);
  // The job reports what it measured.
  Profile::News report(const LiveProgress& progress, double now);
  // It got a new worker, which was ready after this long.
  void note_change(Seconds seconds) { profile_.note_change(seconds); }

  // That more devices made it slower was learned so long ago that they may be tried again.
  bool may_forget_cap(double now) const;

  const JobSpec& spec() const { return spec_; }
  const Profile& profile() const { return profile_; }
  const LiveProgress& progress() const { return progress_; }
  JobKnowledge knowledge();

  // The one estimate of work left and speed, for policies, ETAs and forecasts.
  // Steps of its present batch, at least one: it has not ended. Nothing: its length is not known.
  std::optional<std::int64_t> steps_left() const;
  // Of a step of its present batch on so many devices, as measured; sizes that were never measured
  // are extrapolated. 0: nothing was measured.
  Seconds step_s(int devices) const;
  // Until it is done on so many devices; nothing when its length or speed is not known.
  std::optional<Seconds> seconds_left(int devices) const;
  // Before a job that waits does its first step.
  Seconds start_cost() const;

  Seconds seconds_at_request(Seconds now_s) const override;
  double updates(std::int64_t batch, Seconds now_s) const override;
  double epochs_done(Seconds now_s) const override;
  double samples_done(Seconds now_s) const override;

 private:
  void learn();
  int logical_workers(const JobRecord& record) const;
  void cap(int devices, DeviceLimit limit);

  JobDocument document_;
  const Machine& machine_;
  JobSpec spec_;
  Profile profile_;
  LiveProgress progress_;
  double capped_since_ = 0;            // as far as this object knows; 0: it is not
  std::unique_ptr<SpeedModel> speed_;  // null while nothing was measured
  std::unique_ptr<LearnedModel> learned_;
};

}  // namespace rubato::control
