// The scheduler reacts to events, asks the policy, validates its plan, places it, and hands the
// differences to an executor. The daemon and the simulator construct this same class, each with its
// own Clock and Executor.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "sched/policy.h"
#include "sched/question.h"
#include "sched/validate.h"

namespace rubato {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Seconds now_s() const = 0;
};

// One change of one job's devices. `before` and `after` are both empty only for a job that was
// turned away (kRejected): it never ran, never will, and is no longer active.
struct Action {
  JobId job;
  Allocation before;
  Allocation after;
  Reason reason = Reason::kKept;
  DecisionFacts facts{};
};

// Carries out actions, with real processes or simulated ones.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void apply(std::span<const Action> actions) = 0;
};

// One scheduling round. The times are measured, so they are not reproducible.
struct RoundRecord {
  Seconds algorithm_s = 0;  // in the policy
  Seconds solver_s = 0;     // in a solver, included in algorithm_s
  Seconds total_s = 0;      // including validation, placement and the difference
  int actions = 0;
  std::optional<Seconds> wake_at_s;
  std::string note;  // of the plan
  // Of a decision that was made beside the scheduler's thread (question.h).
  std::string dropped{};  // why the whole plan was dropped; empty: it was carried out
  int left_out = 0;       // jobs that kept what they had, because they have changed meanwhile
};

// Sources of knowledge about a job; see JobState. They must outlive the job.
struct JobKnowledge {
  const SpeedModel* profiled = nullptr;
  LearnedModel* learned = nullptr;
  const RemainingWork* remaining = nullptr;
  const ObservedProgress* progress = nullptr;
  Seconds resize_cost_s = 0;
};

// The past of a job that another Scheduler scheduled before, because the daemon was restarted or
// now uses another policy.
struct JobPast {
  Allocation allocation;
  Seconds changed_at_s = 0;  // when it got these devices or lost its last ones
  Seconds executed_s = 0;    // seconds with devices before that
  double service = 0;        // device-seconds before that
  int starts = 0;
  int resizes = 0;
};

// Not thread-safe: it has one owner. Every method that changes something takes effect at
// clock.now_s().
class Scheduler {
 public:
  Scheduler(const Cluster& cluster, const PolicyInfo& info, std::unique_ptr<Policy> policy,
            const Clock& clock, Executor& executor);

  // A job arrives. Refused if its id is already active or if no type could ever hold its minimum.
  Status submit(JobSpec spec, const JobKnowledge& knowledge);
  // Takes over a job that another scheduler scheduled before. Refused for the same reasons. Its
  // devices must be free here.
  Status adopt(JobSpec spec, const JobKnowledge& knowledge, JobPast past);
  // The job's range or priority changed, because of its owner or of a measurement. Takes effect at
  // the next round. Refused like a submission; then only the knowledge is taken over.
  Status update(JobSpec spec, const JobKnowledge& knowledge);
  // A job ended (or was cancelled); its devices are free at once.
  void remove(JobId job);
  // A node goes down or comes back. Jobs on a node that goes down lose their devices there at once
  // (see fit_to_usable).
  void set_node_down(NodeId node, bool down);
  // Serving takes this many devices of a type, starting from the last node of the cluster. Jobs
  // lose them at once. With `gracefully`, jobs keep them (owed() counts these) until
  // enforce_reserved() or the next round, which takes them back before it asks the policy.
  void set_reserved(DeviceTypeId type, int devices, bool gracefully = false);
  // Takes the devices that are owed to serving away from the jobs.
  void enforce_reserved() { evict(Reason::kReclaimed); }
  // Devices of this type that jobs still hold although serving asked for them.
  int owed(DeviceTypeId type) const { return owed_[type]; }

  // Asks the policy and carries out its plan. An invalid plan changes no job and is returned as an
  // error. Either way the policy has been told of the jobs that ended.
  Result<RoundRecord> round();
  // The same with another policy, which is not told of the jobs that ended.
  Result<RoundRecord> round_with(Policy& policy);

  // A round in two halves, with the decision in another thread: policy()->decide() with the input
  // of the question, which is told of the jobs that ended. Until accept() or give_up(), nothing
  // else may use the policy. The caller replaces the pointers of the question's jobs.
  Question ask();
  // Carries out what the rule of question.h leaves of the plan. `times` has the policy's share.
  Result<RoundRecord> accept(const Question& question, Plan plan, const RoundRecord& times);
  void give_up() { asked_ = false; }
  std::shared_ptr<Policy> policy() const { return policy_; }

  std::span<const JobState* const> jobs() const { return {active_.data(), active_.size()}; }
  const JobState* find(JobId job) const;
  int allocated() const { return allocated_; }
  int running() const { return running_; }
  // Devices that are neither down nor already given to serving.
  int usable() const { return usable_by_type_.total() + owed_.total(); }
  const Cluster& cluster() const { return cluster_; }

 private:
  Status check(const JobSpec& spec) const;
  void know(JobState& state, const JobKnowledge& knowledge) const;
  void refresh_usable();
  void refresh_owed();
  void evict(Reason reason);
  void change(JobState& job, Allocation after, Reason reason, const DecisionFacts& facts,
              std::vector<Action>& actions);
  void turn_away(const Plan& plan, std::vector<Action>& actions);
  PolicyInput input_now(std::span<const FinishedJob> finished) const;
  Result<RoundRecord> decide_with(Policy& policy, std::span<const FinishedJob> finished);
  Error invalid(const PlanError& error, Seconds now_s) const;
  std::vector<Action> carry_out(const Plan& plan, const PolicyInput& input);

  const Cluster& cluster_;
  const PolicyInfo& info_;
  std::shared_ptr<Policy> policy_;
  bool asked_ = false;  // another thread may be using the policy
  const Clock& clock_;
  Executor& executor_;

  std::unordered_map<JobId, std::unique_ptr<JobState>> by_id_;
  std::vector<JobState*> active_;      // in order of arrival
  std::vector<FinishedJob> finished_;  // since the last round
  std::vector<char> down_;
  DeviceCounts reserved_;
  std::vector<int> usable_;
  DeviceCounts usable_by_type_;
  DeviceCounts owed_;
  int allocated_ = 0;
  int running_ = 0;
};

}  // namespace rubato
