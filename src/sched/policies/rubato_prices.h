// What a second of a job's work is worth when the future is planned, for the policy `rubato`.
//
// A device has a price at every future moment: what one more of it would save in the sum of all
// completion times. At given prices every job plans for itself. A job whose work is worth v per
// second (of its length on one device) runs at the size with the largest v x speed - price x size,
// or waits; it ends when a further second would cost as much as it gains: then
// v = min (1 + price x size) / speed. So v follows from the price at the job's end, and the end
// from v. Prices rise where the jobs want more devices than there are and fall where they want
// fewer. Short jobs end while devices are dear, so their work is worth more; long ones wait for
// the time after that. Work of jobs that scale badly is worth more than that of jobs that can
// catch up.
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
    double speed = 0;  // relative to one device
  };
  std::vector<Size> sizes;  // ascending, speeds on their concave majorant, at least one
  Seconds length_s = 0;     // on one device
};

// Leaves the sizes that can be the best at some price; ascending ones go in and come out.
void keep_majorant(std::vector<PlannedJob::Size>& sizes);

class PricePath {
 public:
  PricePath();

  // The worth of each job's work, at prices that follow from those of the last call: a few steps
  // towards prices at which `capacity` >= 1 devices are wanted, fewer with many jobs, none
  // without jobs. O(jobs x periods x sizes) per step.
  std::vector<double> values(std::span<const PlannedJob> jobs, int capacity);

 private:
  // Periods of the future, each longer than the one before; the last ends after three days.
  static constexpr std::size_t kPeriods = 32;
  using Periods = std::array<double, kPeriods>;

  struct Course {
    double value = 0;
    std::size_t end = 0;  // the period in which the job ends,
    double part = 1;      // and how much of it is needed
  };
  Course course(const PlannedJob& job) const;
  // The worth of the work of a job that ends in this period.
  double value_at_end(const PlannedJob& job, std::size_t period) const;
  // Work done in the first so many periods.
  double done(const PlannedJob& job, double value, std::size_t periods) const;

  Periods seconds_{};
  Periods price_{};  // of a device for a second
};

}  // namespace rubato
