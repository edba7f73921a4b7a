// What the demo promises, checked against the daemon's log and undisturbed runs, and what sharing
// gained over a rigid schedule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/replay.h"
#include "demo/jobs.h"
#include "demo/show.h"
#include "live/live_daemon.h"

namespace rubato::demo {

// The mean completion time of the best rigid schedule must be this many times Rubato's.
constexpr double kLeastGain = 1.1;

// The jobs as they ran, and simulated on fixed sizes with the step times measured in that run.
struct Comparison {
  control::Past past;
  std::vector<control::RigidReplay> rigid;  // best first
  double gain() const {
    return rigid.front().replay.simulated_mean_s / past.history.mean_completion_s;
  }
};

// Prints whether each promise was kept, and counts the broken ones.
class Verdict {
 public:
  void promise(bool kept, const std::string& text);
  int broken() const { return broken_; }

  void judge_bits(const live::LiveDaemon& daemon, const std::vector<DemoJob>& jobs,
                  live::Undisturbed& undisturbed);
  void judge_disturbances(const std::vector<control::Event>& events,
                          const Disturbances& disturbances);
  // When workers come and go, those that stay lose less than a step.
  void judge_stalls(const std::vector<control::ViewChange>& changes);
  // Empty if the log cannot be replayed, which counts as a broken promise.
  std::optional<Comparison> judge_gain(const std::string& state_folder,
                                       const std::vector<control::Event>& events);

 private:
  int broken_ = 0;
};

}  // namespace rubato::demo
