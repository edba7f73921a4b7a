// The value of a second of a job's work if the future is planned, for the policy `rubato`.
//
// A device has a price at every future moment: what one more device would save in the sum of all
// completion times. At given prices, every job plans for itself. A job whose work is worth v per
// second (of its length at speed 1) runs at the size with the largest gain v x speed - price x
// size, or waits. It ends when a further second would cost as much as it gains. The gain is then 1,
// so v = min (1 + price x size) / speed. A job passes through phases that scale differently (early
// in training, large batches hardly help). Where one phase passes into the next, both gain the
// same, which gives the v of the earlier phase. So v follows from the prices around the job's end,
// and the end follows from v. Prices rise while jobs want more devices than there are, and fall
// while they want fewer. Short jobs end while devices are expensive, so their work is worth more;
// long jobs wait until later. Work that scales badly is worth more than work that can catch up.
//
// Only the current jobs are planned. Nothing is assumed about future arrivals.
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

// Keeps only the sizes that can be the best at some price. Input and output are ascending.
void keep_majorant(std::vector<PlannedJob::Size>& sizes);

class PricePath {
 public:
  PricePath();

  // The value of each job's present work. Prices continue from the last call and take a few steps
  // towards prices at which `capacity` >= 1 devices are wanted: fewer steps with many jobs, none
  // without jobs. O(jobs x periods x sizes) per step.
  std::vector<double> values(std::span<const PlannedJob> jobs, int capacity);

 private:
  // Periods of the future, each longer than the one before. The last one ends after about three
  // and a half days.
  static constexpr std::size_t kPeriods = 32;
  using Periods = std::array<double, kPeriods>;

  // When a job ends: in this period, after this fraction of it.
  struct End {
    std::size_t period = 0;
    double part = 1;
  };
  // Works backwards from an end: computes the value of the work of each phase, and whether there is
  // time for all phases.
  bool fits(const PlannedJob& job, End end, std::vector<double>& values) const;
  // The earliest end for which there is time, with the values that belong to it.
  End earliest_end(const PlannedJob& job, std::vector<double>& values) const;
  // Adds the devices that the job uses.
  void note_use(const PlannedJob& job, End end, const std::vector<double>& values,
                Periods& wanted) const;

  Periods seconds_{};
  Periods price_{};  // of a device for a second
};

}  // namespace rubato
