#include "sched/policies/remaining_estimate.h"

#include <algorithm>
#include <numeric>

namespace rubato {

namespace {

constexpr double kEpochsToTrust = 0.01;    // less progress says nothing yet
constexpr std::size_t kHistory = 2'000;    // number of ended jobs to remember
constexpr std::ptrdiff_t kToTrust = 5;     // number of ended jobs with more service that must exist
constexpr double kLeastEpochsLeft = 1e-3;  // of a job that has not ended yet

double own_samples_per_epoch(const JobState& job, Seconds now_s) {
  const double epochs = job.progress->epochs_done(now_s);
  return epochs < kEpochsToTrust ? 0 : job.progress->samples_done(now_s) / epochs;
}

}  // namespace

void RemainingEstimate::observe(const PolicyInput& input) {
  for (const FinishedJob& job : input.finished) {
    if (services_.size() >= kHistory) services_.erase(services_.begin() + kHistory / 2);
    services_.insert(std::upper_bound(services_.begin(), services_.end(), job.attained_service),
                     job.attained_service);
  }
  for (const JobState* job : input.jobs) {
    if (job->spec.epochs == 0 || job->spec.application.empty()) continue;
    const double samples = own_samples_per_epoch(*job, input.now_s);
    if (samples > 0) samples_per_epoch_[job->spec.application] = samples;
  }
}

double RemainingEstimate::samples_per_epoch(const JobState& job, Seconds now_s) const {
  const double own = own_samples_per_epoch(job, now_s);
  if (own > 0 || job.spec.application.empty()) return own;
  const auto known = samples_per_epoch_.find(job.spec.application);
  return known == samples_per_epoch_.end() ? 0 : known->second;
}

double RemainingEstimate::from_history(double attained) const {
  const auto longer = std::upper_bound(services_.begin(), services_.end(), attained);
  const std::ptrdiff_t count = services_.end() - longer;
  if (count < kToTrust) return std::max(prior_, attained);
  return std::accumulate(longer, services_.end(), 0.0) / static_cast<double>(count) - attained;
}

Seconds RemainingEstimate::one_device_s(const JobState& job, DeviceTypeId type,
                                        const PolicyInput& input,
                                        RequestedBatchSpeed& speed) const {
  const JobSpec& spec = job.spec;
  if (spec.epochs > 0 && spec.requested_batch > 0) {
    const double samples = samples_per_epoch(job, input.now_s);
    if (samples > 0) {
      const double epochs =
          std::max(kLeastEpochsLeft, spec.epochs - job.progress->epochs_done(input.now_s));
      const double updates = epochs * samples / static_cast<double>(spec.requested_batch);
      return updates * speed.update_s(job, type, 1, input.cluster);
    }
  }
  return std::max(1e-3, from_history(job.attained_service(input.now_s)));
}

}  // namespace rubato
