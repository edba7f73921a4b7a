// The scheduler of the live system: the simulator's Scheduler, fed with the jobs of the daemon. The
// live loop uses one with real time; `plan` creates another one on a snapshot.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/arrays.h"
#include "control/live_job.h"
#include "sched/scheduler.h"

namespace rubato::control {

struct LivePolicy {
  std::string name = "rubato";
  Settings settings;
  std::map<std::string, Tenant> tenants;
  // Tests: the policy to use in place of the one that was made.
  std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> around{};
};

// The policy as the daemon runs it: an instance of its own for each tenant, with their weights and
// quotas and with pins around it.
Result<std::unique_ptr<Policy>> make_live_policy(const LivePolicy& policy);

class LiveScheduler final : public Clock, public Executor {
 public:
  static Result<std::unique_ptr<LiveScheduler>> make(const LiveCluster& cluster,
                                                     const LivePolicy& policy,
                                                     std::function<double()> now);

  // Call this first with all jobs that will be added: of arrays with a limit, those that hold
  // devices come before the others (arrays.h).
  void begin_turns(std::span<const JobRecord* const> records) { turns_.begin(records); }
  // Adds a job with its previous grant, on the nodes where it has it. If some of them are gone, the
  // next actions take their devices back, or all if it cannot run on the others. A job that can
  // never run on this cluster (machine_fit.h) is set aside: it takes no part in rounds, and what it
  // was granted is taken back with the next actions. A job that waits for others, or for its turn
  // in its array, takes no part either. Only a job that was already added is an error.
  Status add(const JobRecord& record, const Profile& profile);
  void remove(JobNumber job);
  // Call this when the range, the grant or the pause in the record changed, or what it waits for. A
  // job that was set aside joins if it fits now and waits for nobody.
  Status refresh(const JobRecord& record);
  // Reports the job's measurements. News::kSize calls for a new decision.
  Profile::News report(const JobRecord& record, const LiveProgress& progress);
  // Records how long a new worker of the job took to be ready.
  void note_change(const JobRecord& record, Seconds seconds);
  // Sets the number of reserved devices, which are of the first type as far as it has so many, then
  // of the next. Jobs that hold them lose them immediately, and so do jobs that were granted more
  // than their nodes have now.
  std::vector<Action> set_reserved(int devices);
  // Runs a scheduling round. The caller must carry out the actions.
  Result<RoundRecord> round(std::vector<Action>& actions);

  // A round whose decision is made in another thread. Jobs may come, go and change meanwhile; until
  // accept() or give_up(), neither round() nor ask() may be called.
  std::unique_ptr<DecisionTask> ask();
  // Carries out what the rule of sched/question.h leaves of the plan. The caller must carry out the
  // actions.
  Result<RoundRecord> accept(DecisionAnswer& answer, std::vector<Action>& actions);
  void give_up() { scheduler_->give_up(); }
  // A round of the StopgapPolicy, with pins; at any time.
  Result<RoundRecord> stopgap(std::vector<Action>& actions);

  const LiveJob* find(JobNumber job) const;
  const JobState* state(JobNumber job) const;
  // Jobs that can never run on this cluster.
  const std::map<JobNumber, Profile>& misfits() const { return misfits_; }
  // Jobs that wait for other jobs, or for their turn in their array.
  const std::map<JobNumber, Profile>& waiting() const { return waiting_; }
  // Jobs whose turn has come since the last call; refresh() lets them join.
  std::vector<JobNumber> take_turns() { return std::exchange(next_, {}); }
  std::span<const JobState* const> jobs() const { return scheduler_->jobs(); }
  // The nodes that the allocations of actions and states refer to.
  const LiveCluster& cluster() const { return cluster_; }
  int allocated() const { return scheduler_->allocated(); }
  int usable() const { return scheduler_->usable(); }
  const std::string& policy_name() const { return policy_name_; }

 private:
  LiveScheduler(const LiveCluster& cluster, std::function<double()> now);
  Seconds now_s() const override { return now_(); }
  void apply(std::span<const Action> actions) override;
  void set_aside(const JobRecord& record, const Profile& profile, int needs);
  // What the job still has of its grant; notes what it lost.
  Allocation keep_what_is_there(const JobRecord& record, const JobSpec& spec);
  // Whether jobs were granted more devices of a node than it has.
  bool granted_too_much() const;
  void take_over(const JobRecord& record);
  void leave(JobNumber job);
  void take_actions(std::vector<Action>& actions);

  LiveCluster cluster_;
  std::function<double()> now_;
  std::string policy_name_;
  std::vector<Action> actions_;
  std::map<JobNumber, std::unique_ptr<LiveJob>> live_;
  std::map<JobNumber, Profile> misfits_;
  std::map<JobNumber, Profile> waiting_;
  ArrayTurns turns_;
  std::vector<JobNumber> next_;  // got a turn and have not joined yet
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Policy> stopgap_;
};

inline JobNumber number_of(JobId id) { return id.value; }

}  // namespace rubato::control
