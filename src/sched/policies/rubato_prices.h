// What a second of a job's work is worth when the future is planned, for the policy `rubato`.
//
// A device has a price at every future moment: what one more of it would save in the sum of all
// completion times. At given prices every job plans for itself. A job whose work is worth v per
// second (of its length at speed 1) runs at the size with the largest gain v x speed - price x
// size, or waits; it ends when a further second would cost as much as it gains: then the gain is 1,
// so v = min (1 + price x size) / speed. A job passes through phases that scale differently (early
// in a training large batches hardly help); where one passes into the next, both gain the same,
// which gives the v of the phase before. So v follows from the prices around the job's end, and the
// end from v. Prices rise where the jobs want more devices than there are and fall where they want
// fewer. Short jobs end while devices are dear, so their work is worth more; long ones wait for
// the time after that. Work that scales badly is worth more than work that can catch up.
//
// Only the jobs that are here are planned: nothing is assumed about future arrivals.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/ids.h"

namespace rubato {

struct PlannedJob {
  struct Size {
    int devices = 0;
    double speed = 0;
  };
  struct Phase {
    std::vector<Size> sizes;  // ascending, speeds on their concave majorant, at least one
    Seconds length_s = 0;     // at speed 1
  };
  std::vector<Phase> phases;  // in this order, at least one
};

// Leaves the sizes that can be the best at some price; ascending ones go in and come out.
void keep_majorant(std::vector<PlannedJob::Size>& sizes);

class PricePath {
 public:
  PricePath();

  // The worth of the present work of each job, at prices that follow from those of the last call: a
  // few steps towards prices at which `capacity` >= 1 devices are wanted, fewer with many jobs,
  // none without jobs. O(jobs x periods x sizes) per step.
  std::vector<double> values(std::span<const PlannedJob> jobs, int capacity);

 private:
  // Periods of the future, each longer than the one before; the last ends after three days.
  static constexpr std::size_t kPeriods = 32;
  using Periods = std::array<double, kPeriods>;

  // When a job ends: within this period, after this part of it.
  struct End {
    std::size_t period = 0;
    double part = 1;
  };
  // Backwards from an end: the worth of the work of each phase, and whether there is time for all.
  bool fits(const PlannedJob& job, End end, std::vector<double>& values) const;
  // The first end for which there is time, with the values that belong to it.
  End earliest_end(const PlannedJob& job, std::vector<double>& values) const;
  // Adds the devices that the job uses.
  void note_use(const PlannedJob& job, End end, const std::vector<double>& values,
                Periods& wanted) const;

  Periods seconds_{};
  Periods price_{};  // of a device for a second
};

}  // namespace rubato
