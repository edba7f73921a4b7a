// A decision for another thread: the policy and everything that it may look at, as values. The live
// loop goes on with jobs and models of its own.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "sched/question.h"

namespace rubato::control {

// What a job said about itself when the question was asked.
class KnownProgress final : public ObservedProgress, public RemainingWork {
 public:
  KnownProgress(double epochs, double samples, Seconds seconds_at_request, double updates)
      : epochs_(epochs), samples_(samples), seconds_(seconds_at_request), updates_(updates) {}
  double epochs_done(Seconds) const override { return epochs_; }
  double samples_done(Seconds) const override { return samples_; }
  Seconds seconds_at_request(Seconds) const override { return seconds_; }
  double updates(std::int64_t, Seconds) const override { return updates_; }

 private:
  double epochs_;
  double samples_;
  Seconds seconds_;
  double updates_;
};

struct KnownJob {
  KnownProgress progress;
  std::shared_ptr<const SpeedModel> speed;
  // Only the decision asks it, and only the loop changes it: by replacing it with a copy.
  std::shared_ptr<LearnedModel> learned;
};

// Made and destroyed by the loop, which counts on that: a model that no task has is its own.
struct DecisionTask {
  Question question;
  std::deque<KnownJob> known;  // what the question's jobs point to
  std::shared_ptr<Policy> policy;
};

struct DecisionAnswer {
  std::unique_ptr<DecisionTask> task;
  Plan plan;
  Seconds algorithm_s = 0;
  std::string error;  // what the policy threw; empty: nothing
};

}  // namespace rubato::control
