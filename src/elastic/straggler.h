// Which workers are slow. A pure state machine: it is fed what each worker needed for each step and
// says who is to be flagged or cleared. The same worker is measured per logical worker, so hosting
// fewer of them does not make it look faster.
//
// Noise must not move work to and fro: a worker is flagged after kSteps slow steps in a row (a busy
// machine makes single steps slow, not ten of one worker), is cleared only when it is clearly
// faster than the limit, and each time it is flagged again it has to be well for twice as long.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace rubato::elastic {

class StragglerWatch {
 public:
  static constexpr double kSlow = 1.2;   // times the median: a slow step
  static constexpr double kWell = 1.1;   // times the median: no longer slow
  static constexpr int kSteps = 10;      // slow steps in a row until it is flagged
  static constexpr int kMostWell = 640;  // good steps in a row until it is cleared, at most

  struct Sample {
    int worker = 0;
    double seconds = 0;  // per logical worker; positive
  };
  struct Verdict {
    struct Flag {
      int worker = 0;
      double slowdown = 0;  // mean over the slow steps, in medians
    };
    std::vector<Flag> flagged;
    std::vector<int> cleared;
    bool empty() const { return flagged.empty() && cleared.empty(); }
  };

  // All workers of a view in one step. Nobody is slow among fewer than two.
  Verdict observe(std::span<const Sample> samples);
  // Others than these have left the job.
  void keep_only(std::span<const int> workers);

  bool flagged(int worker) const;
  // Seconds per logical worker to divide the work by: all the usual ones but those of flagged
  // workers, since small differences are noise. 1 before anything was measured.
  double seconds(int worker) const;

 private:
  struct State {
    int slow = 0;  // steps in a row
    int well = 0;
    double sum = 0;  // of the slow steps
    double sum_of_medians = 0;
    std::optional<double> seconds;  // smoothed, while flagged
    int steps_to_clear = kSteps;
  };
  std::map<int, State> workers_;
  double usual_ = 0;  // smoothed median
};

}  // namespace rubato::elastic
