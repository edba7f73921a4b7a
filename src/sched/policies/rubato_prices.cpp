#include "sched/policies/rubato_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rubato {

namespace {

constexpr Seconds kFirstPeriod = 60;
constexpr double kGrowth = 1.25;  // length of a period relative to the one before
constexpr double kFirstPrice = 0.1;
constexpr double kLeastPrice = 1e-4;
constexpr double kPace = 0.08;             // step size of prices
constexpr int kHalvings = 4;               // of the period in which a job ends
constexpr std::size_t kMostSteps = 10;     // of prices in one decision
constexpr std::size_t kCoursesHeld = 400;  // of jobs, computed in all steps of one decision

// Null if it is better to wait at this price.
const PlannedJob::Size* choose(const PlannedJob::Phase& phase, double value, double price) {
  const PlannedJob::Size* best = nullptr;
  double most = 0;
  for (const PlannedJob::Size& size : phase.sizes) {
    const double gain = value * size.speed - price * size.devices;
    // Along a concave majorant, gains first rise and then fall.
    if (gain <= most) break;
    most = gain;
    best = &size;
  }
  return best;
}

// The value of work at which running gains this much per second.
double value_of_gain(const PlannedJob::Phase& phase, double gain, double price) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlannedJob::Size& size : phase.sizes) {
    least = std::min(least, (gain + price * size.devices) / size.speed);
  }
  return least;
}

}  // namespace

void keep_majorant(std::vector<PlannedJob::Size>& sizes) {
  std::size_t kept = 0;
  const auto slope = [&](std::size_t to, const PlannedJob::Size& size) {
    const PlannedJob::Size from = to == 0 ? PlannedJob::Size{} : sizes[to - 1];
    return (size.speed - from.speed) / (size.devices - from.devices);
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const PlannedJob::Size next = sizes[i];
    while (kept > 0 && slope(kept, next) >= slope(kept - 1, sizes[kept - 1])) --kept;
    if (slope(kept, next) > 0) sizes[kept++] = next;
  }
  sizes.resize(kept);
}

PricePath::PricePath() {
  Seconds length = kFirstPeriod;
  for (Seconds& seconds : seconds_) {
    seconds = length;
    length *= kGrowth;
  }
  price_.fill(kFirstPrice);
}

bool PricePath::fits(const PlannedJob& job, End end, std::vector<double>& values) const {
  std::size_t phase = job.phases.size() - 1;
  double left = job.phases[phase].length_s;
  values.resize(job.phases.size());
  values[phase] = value_of_gain(job.phases[phase], 1, price_[end.period]);
  if (end.period > 0 && end.part < 1) {
    // Interpolated between two periods, so that the value does not jump when the end moves to the
    // next one.
    const double before = value_of_gain(job.phases[phase], 1, price_[end.period - 1]);
    values[phase] = std::pow(before, 1 - end.part) * std::pow(values[phase], end.part);
  }
  for (std::size_t p = end.period + 1; p-- > 0;) {
    Seconds open = seconds_[p] * (p == end.period ? end.part : 1.0);
    while (open > 0) {
      const PlannedJob::Size* size = choose(job.phases[phase], values[phase], price_[p]);
      if (size == nullptr) break;
      const Seconds needed = left / size->speed;
      if (needed > open) {
        left -= open * size->speed;
        break;
      }
      open -= needed;
      if (phase == 0) return true;
      const double gain = values[phase] * size->speed - price_[p] * size->devices;
      --phase;
      left = job.phases[phase].length_s;
      values[phase] = value_of_gain(job.phases[phase], gain, price_[p]);
    }
  }
  // There is no time for the phases before this one.
  while (phase-- > 0) values[phase] = values[phase + 1];
  return false;
}

void PricePath::note_use(const PlannedJob& job, End end, const std::vector<double>& values,
                         Periods& wanted) const {
  std::size_t phase = 0;
  double left = job.phases[0].length_s;
  for (std::size_t p = 0; p <= end.period; ++p) {
    Seconds open = seconds_[p];
    while (open > 0) {
      const PlannedJob::Size* size = choose(job.phases[phase], values[phase], price_[p]);
      if (size == nullptr) break;
      const Seconds spent = std::min(open, left / size->speed);
      wanted[p] += size->devices * spent / seconds_[p];
      left -= spent * size->speed;
      if (spent >= open) break;
      open -= spent;
      if (++phase == job.phases.size()) return;
      left = job.phases[phase].length_s;
    }
  }
}

PricePath::End PricePath::earliest_end(const PlannedJob& job, std::vector<double>& values) const {
  std::size_t low = 0;
  std::size_t high = kPeriods - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (fits(job, {middle, 1}, values)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  double least = 0;
  double most = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double part = (least + most) / 2;
    (fits(job, {low, part}, values) ? most : least) = part;
  }
  fits(job, {low, most}, values);
  return {low, most};
}

std::vector<double> PricePath::values(std::span<const PlannedJob> jobs, int capacity) {
  std::vector<double> result(jobs.size());
  if (jobs.empty()) return result;
  std::vector<double> of_phases;
  const std::size_t steps = std::clamp(kCoursesHeld / jobs.size(), std::size_t{1}, kMostSteps);
  for (std::size_t step = 0; step < steps; ++step) {
    Periods wanted{};
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const End end = earliest_end(jobs[j], of_phases);
      result[j] = of_phases.front();
      note_use(jobs[j], end, of_phases, wanted);
    }
    for (std::size_t p = 0; p < kPeriods; ++p) {
      const double excess = std::clamp(wanted[p] / capacity - 1, -0.5, 1.0);
      price_[p] = std::max(kLeastPrice, price_[p] * std::exp(kPace * excess));
    }
  }
  return result;
}

}  // namespace rubato
