// A decision that is made beside the scheduler's thread: what the policy is asked, as values, and
// what may be done with its plan when the jobs have changed meanwhile.
//
// The rule. Every job either gets exactly what the plan gives it, or keeps what it has because it
// changed since the question (it arrived, lost devices, its range is another); and no job keeps
// more than the plan gives it. Otherwise the whole plan is dropped. So is a plan
//  - that was made before a pin, a pinned job or a priority changed, or with devices that are gone,
//  - that gives more devices to a job that has ended: others would give up devices for nothing.
// So an applied plan gives every job at most what the policy gave it. What held for the policy's
// plan holds for what is applied: no device is given twice, no quota is exceeded, no pin is broken,
// and jobs that have ended are not in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sched/policy.h"

namespace rubato {

// Owns everything that the policy may look at, except what the jobs' pointers refer to: whoever
// asks replaces those (JobState::profiled, learned, progress, remaining) by values of its own. May
// be moved, not copied.
struct Question {
  Question() = default;
  Question(Question&&) = default;
  Question& operator=(Question&&) = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;
  ~Question() = default;

  Seconds now_s = 0;
  Cluster cluster;
  std::vector<int> usable;
  DeviceCounts usable_by_type;
  std::vector<JobState> states;  // in order of arrival
  std::vector<const JobState*> jobs;
  std::vector<FinishedJob> finished;

  PolicyInput input(const DecisionLimit* limit = nullptr) const {
    return {.now_s = now_s,
            .cluster = cluster,
            .usable = usable,
            .usable_by_type = usable_by_type,
            .jobs = jobs,
            .finished = finished,
            .limit = limit};
  }
};

struct CarriedPlan {
  std::optional<Plan> plan;  // for the jobs of today; none: the whole plan is dropped
  std::string why;           // it is dropped
  int left_out = 0;          // jobs that the plan knew and that keep what they have
};

// The plan (valid for the question) by the rule above. O(jobs x types + nodes).
CarriedPlan carry_over(const Question& question, const Plan& plan, const PolicyInput& today);

}  // namespace rubato
