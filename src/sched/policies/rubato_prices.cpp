#include "sched/policies/rubato_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rubato {

namespace {

constexpr Seconds kFirstPeriod = 60;
constexpr double kGrowth = 1.25;  // of a period beside the one before
constexpr double kFirstPrice = 0.1;
constexpr double kLeastPrice = 1e-4;
constexpr double kPace = 0.08;             // of prices, per step
constexpr double kLeastPart = 0.05;        // of its last period that a job is assumed to need
constexpr std::size_t kMostSteps = 10;     // of prices in one decision,
constexpr std::size_t kCoursesHeld = 400;  // and courses that are computed in them

// Null: at this price it is better to wait.
const PlannedJob::Size* choose(const PlannedJob& job, double value, double price) {
  const PlannedJob::Size* best = nullptr;
  double most = 0;
  for (const PlannedJob::Size& size : job.sizes) {
    const double gain = value * size.speed - price * size.devices;
    // Along a concave majorant, gains rise and then fall.
    if (gain <= most) break;
    most = gain;
    best = &size;
  }
  return best;
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

double PricePath::value_at_end(const PlannedJob& job, std::size_t period) const {
  double least = std::numeric_limits<double>::infinity();
  for (const PlannedJob::Size& size : job.sizes) {
    least = std::min(least, (1 + price_[period] * size.devices) / size.speed);
  }
  return least;
}

double PricePath::done(const PlannedJob& job, double value, std::size_t periods) const {
  double work = 0;
  for (std::size_t p = 0; p < periods; ++p) {
    const PlannedJob::Size* size = choose(job, value, price_[p]);
    if (size != nullptr) work += seconds_[p] * size->speed;
  }
  return work;
}

PricePath::Course PricePath::course(const PlannedJob& job) const {
  std::size_t low = 0;
  std::size_t high = kPeriods - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (done(job, value_at_end(job, middle), middle + 1) >= job.length_s) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  Course result{.value = value_at_end(job, low), .end = low};
  const double before = done(job, result.value, low);
  const double with = done(job, result.value, low + 1);
  if (with > before) {
    result.part = std::clamp((job.length_s - before) / (with - before), kLeastPart, 1.0);
  }
  // Between the two periods, so that the worth does not jump when the end moves to the next one.
  if (low > 0) {
    result.value =
        std::pow(value_at_end(job, low - 1), 1 - result.part) * std::pow(result.value, result.part);
  }
  return result;
}

std::vector<double> PricePath::values(std::span<const PlannedJob> jobs, int capacity) {
  std::vector<double> result(jobs.size());
  if (jobs.empty()) return result;
  const std::size_t steps = std::clamp(kCoursesHeld / jobs.size(), std::size_t{1}, kMostSteps);
  for (std::size_t step = 0; step < steps; ++step) {
    Periods wanted{};
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const Course way = course(jobs[j]);
      result[j] = way.value;
      for (std::size_t p = 0; p <= way.end; ++p) {
        const PlannedJob::Size* size = choose(jobs[j], way.value, price_[p]);
        if (size != nullptr) wanted[p] += size->devices * (p == way.end ? way.part : 1.0);
      }
    }
    for (std::size_t p = 0; p < kPeriods; ++p) {
      const double excess = std::clamp(wanted[p] / capacity - 1, -0.5, 1.0);
      price_[p] = std::max(kLeastPrice, price_[p] * std::exp(kPace * excess));
    }
  }
  return result;
}

}  // namespace rubato
