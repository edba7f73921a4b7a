#include "elastic/worker/straggler.h"

#include <algorithm>

namespace rubato::elastic {

namespace {

constexpr double kSmoothing = 0.2;

// The lower median: with two workers, the slow one must not raise its own limit.
double median_of(std::span<const StragglerWatch::Sample> samples) {
  std::vector<double> values;
  for (const auto& sample : samples) values.push_back(sample.seconds);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

StragglerWatch::Verdict StragglerWatch::observe(std::span<const Sample> samples, double step_s) {
  Verdict verdict;
  if (samples.size() < 2) return verdict;
  const double median = median_of(samples);
  if (median <= 0) return verdict;
  usual_ = usual_ <= 0 ? median : usual_ + kSmoothing * (median - usual_);
  for (const Sample& sample : samples) {
    State& state = workers_[sample.worker];
    if (state.seconds) *state.seconds += kSmoothing * (sample.seconds - *state.seconds);
    if (sample.seconds > kSlow * median) {
      state.well = 0;
      state.slow += 1;
      state.sum += sample.seconds;
      state.sum_of_medians += median;
      state.lasting += step_s;
      if (!state.seconds && state.slow >= kSteps && state.lasting >= kSeconds) {
        state.seconds = state.sum / state.slow;
        verdict.flagged.push_back({sample.worker, state.sum / state.sum_of_medians});
      }
      continue;
    }
    state.slow = 0;
    state.sum = 0;
    state.sum_of_medians = 0;
    state.lasting = 0;
    if (!state.seconds) continue;
    state.well = sample.seconds <= kWell * median ? state.well + 1 : 0;
    if (state.well >= state.steps_to_clear) {
      state.well = 0;
      state.seconds.reset();
      state.steps_to_clear = std::min(2 * state.steps_to_clear, kMostWell);
      verdict.cleared.push_back(sample.worker);
    }
  }
  return verdict;
}

void StragglerWatch::keep_only(std::span<const int> workers) {
  std::erase_if(workers_, [&](const auto& entry) {
    return std::find(workers.begin(), workers.end(), entry.first) == workers.end();
  });
}

bool StragglerWatch::flagged(int worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.seconds.has_value();
}

double StragglerWatch::seconds(int worker) const {
  const double usual = usual_ > 0 ? usual_ : 1.0;
  const auto found = workers_.find(worker);
  if (found == workers_.end() || !found->second.seconds) return usual;
  return std::max(*found->second.seconds, usual);
}

}  // namespace rubato::elastic
