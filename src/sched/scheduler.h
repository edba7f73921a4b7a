// The scheduler: reacts to events, asks the policy, validates its plan, places it, and hands the
// difference to an executor. The daemon and the simulator construct this same class with another
// Clock and another Executor.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "sched/policy.h"

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

// Turns actions into processes (or into simulated ones).
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void apply(std::span<const Action> actions) = 0;
};

// One scheduling round, with the time it took (measured, so not reproducible).
struct RoundRecord {
  Seconds algorithm_s = 0;  // in the policy
  Seconds solver_s = 0;     // of which in a solver
  Seconds total_s = 0;      // with validation, placement and difference
  int actions = 0;
  std::optional<Seconds> wake_at_s;
  std::string note;  // of the plan
};

// Sources of knowledge about a job; they must outlive it. See JobState.
struct JobKnowledge {
  const SpeedModel* profiled = nullptr;
  LearnedModel* learned = nullptr;
  const RemainingWork* remaining = nullptr;
  const ObservedProgress* progress = nullptr;
  Seconds resize_cost_s = 0;
};

// What a job has behind it, for one that was scheduled by another Scheduler before (the daemon was
// restarted, or uses another policy now).
struct JobPast {
  Allocation allocation;
  Seconds changed_at_s = 0;  // when it got this allocation, or lost its last one
  Seconds executed_s = 0;    // seconds with devices before that
  double service = 0;        // device-seconds before that
  int starts = 0;
  int resizes = 0;
};

// Not thread-safe: one owner calls it. Every method that changes something takes effect at
// clock.now_s().
class Scheduler {
 public:
  Scheduler(const Cluster& cluster, const PolicyInfo& info, std::unique_ptr<Policy> policy,
            const Clock& clock, Executor& executor);

  // A job arrives. Refused when its id is active already or no type could ever hold its minimum.
  Status submit(JobSpec spec, const JobKnowledge& knowledge);
  // A job that is scheduled already; the same refusals. Its devices must be free here.
  Status adopt(JobSpec spec, const JobKnowledge& knowledge, JobPast past);
  // Its owner, or what was measured, changed the range in which it may be resized, or its priority;
  // takes effect at the next round. Refused like a submission.
  Status update(JobSpec spec, const JobKnowledge& knowledge);
  // A job ended (or was cancelled); its devices are free at once.
  void remove(JobId job);
  // A node goes down or comes back; jobs there lose their devices at once (see
  // fit_to_usable).
  void set_node_down(NodeId node, bool down);
  // Serving takes this many devices of a type, from the last nodes of the cluster backwards. Jobs
  // lose theirs at once; with `gracefully` they keep them (owed() counts these) until the next
  // round, which gives them back before it asks the policy, or until enforce_reserved().
  void set_reserved(DeviceTypeId type, int devices, bool gracefully = false);
  // Jobs lose what serving is owed.
  void enforce_reserved() { evict(Reason::kReclaimed); }
  // Devices of this type that jobs hold although serving asked for them.
  int owed(DeviceTypeId type) const { return owed_[type]; }

  // Asks the policy and carries its plan out. An invalid plan changes nothing and is returned as an
  // error.
  Result<RoundRecord> round();

  std::span<const JobState* const> jobs() const { return {active_.data(), active_.size()}; }
  const JobState* find(JobId job) const;
  int allocated() const { return allocated_; }
  int running() const { return running_; }
  // Devices neither down nor in the hands of serving.
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

  const Cluster& cluster_;
  const PolicyInfo& info_;
  std::unique_ptr<Policy> policy_;
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
