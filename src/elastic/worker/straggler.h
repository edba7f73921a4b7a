// Detects slow workers. A pure state machine: it receives each worker's time for each step and
// reports which workers to flag or clear. Times are per logical worker, so hosting fewer of them
// does not make a worker look faster.
//
// Noise must not move work back and forth. A worker is flagged after kSteps slow steps in a row
// that took kSeconds together: a busy machine slows down single steps, or for a moment all steps of
// one worker, for instance while other programs start. It is cleared only once it is clearly faster
// than the limit, and each time it is flagged again it has to stay fast twice as long.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace rubato::elastic {

class StragglerWatch {
 public:
  static constexpr double kSlow = 1.2;   // a step above this multiple of the median is slow
  static constexpr double kWell = 1.1;   // a step up to this multiple of the median is good
  static constexpr int kSteps = 10;      // slow steps in a row before a worker is flagged
  static constexpr double kSeconds = 3;  // how long these steps must take together
  static constexpr int kMostWell = 640;  // upper limit for the good steps needed to clear it

  struct Sample {
    int worker = 0;
    double seconds = 0;  // per logical worker; positive
  };
  struct Verdict {
    struct Flag {
      int worker = 0;
      double slowdown = 0;  // mean over the slow steps, in multiples of the median
    };
    std::vector<Flag> flagged;
    std::vector<int> cleared;
    bool empty() const { return flagged.empty() && cleared.empty(); }
  };

  // Takes the times of all workers of a view in one step, which took `step_s`. With fewer than two,
  // nobody is slow.
  Verdict observe(std::span<const Sample> samples, double step_s);
  // Forgets all other workers: they have left the job.
  void keep_only(std::span<const int> workers);

  bool flagged(int worker) const;
  // Seconds per logical worker for dividing the work: the usual time for all but flagged workers,
  // since small differences are noise. 1 before anything was measured.
  double seconds(int worker) const;

 private:
  struct State {
    int slow = 0;  // slow steps in a row
    int well = 0;
    double sum = 0;      // seconds of the slow steps, per logical worker
    double lasting = 0;  // seconds of the slow steps
    double sum_of_medians = 0;
    std::optional<double> seconds;  // smoothed, while flagged
    int steps_to_clear = kSteps;
  };
  std::map<int, State> workers_;
  double usual_ = 0;  // smoothed median
};

}  // namespace rubato::elastic
