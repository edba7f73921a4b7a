// The scheduler of the running system: the same Scheduler as the simulator's, with jobs as the
// daemon knows them. The live loop has one with the real time; `plan` makes another on a snapshot.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/live_job.h"
#include "sched/scheduler.h"

namespace rubato::control {

struct LivePolicy {
  std::string name = "rubato";
  Settings settings;
  std::map<std::string, Tenant> tenants;
};

class LiveScheduler final : public Clock, public Executor {
 public:
  static Result<std::unique_ptr<LiveScheduler>> make(const Machine& machine,
                                                     const LivePolicy& policy,
                                                     std::function<double()> now);

  // A job with whatever it was granted before. Refused when this machine can never hold it.
  Status add(const JobRecord& record, const Profile& profile);
  void remove(JobNumber job);
  // The record's range, grant or pause changed.
  Status refresh(const JobRecord& record);
  // The job reports what it measured; a new size calls for a new decision.
  Profile::News report(const JobRecord& record, const LiveProgress& progress);
  // The job got a new worker, which was ready after this long.
  void note_change(const JobRecord& record, Seconds seconds);
  // Serving takes this many devices; jobs that hold them lose them at once.
  std::vector<Action> set_reserved(int devices);
  // Decides. The actions are the caller's to carry out.
  Result<RoundRecord> round(std::vector<Action>& actions);

  const LiveJob* find(JobNumber job) const;
  const JobState* state(JobNumber job) const;
  std::span<const JobState* const> jobs() const { return scheduler_->jobs(); }
  int allocated() const { return scheduler_->allocated(); }
  int usable() const { return scheduler_->usable(); }
  const std::string& policy_name() const { return policy_name_; }

 private:
  LiveScheduler(const Machine& machine, std::function<double()> now);
  Seconds now_s() const override { return now_(); }
  void apply(std::span<const Action> actions) override;

  Machine machine_;
  Cluster cluster_;
  std::function<double()> now_;
  std::string policy_name_;
  std::vector<Action> actions_;
  std::map<JobNumber, std::unique_ptr<LiveJob>> live_;
  std::unique_ptr<Scheduler> scheduler_;
};

inline JobNumber number_of(JobId id) { return id.value; }

}  // namespace rubato::control
