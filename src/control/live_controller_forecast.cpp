// What would happen under another policy.
#include <algorithm>
#include <chrono>

#include "control/live_controller.h"
#include "control/snapshot.h"

namespace rubato::control {

namespace {

constexpr auto kLookFor = std::chrono::milliseconds(1500);

nlohmann::json or_null(const std::optional<Seconds>& seconds) {
  return seconds ? nlohmann::json(*seconds) : nlohmann::json(nullptr);
}

}  // namespace

Result<nlohmann::json> LiveController::forecast(const Caller& caller, const std::string& policy,
                                                const Settings& settings,
                                                const std::function<bool()>& abandoned) const {
  const Snapshot snapshot = take_snapshot(caller);
  const auto deadline = std::chrono::steady_clock::now() + kLookFor;
  ForecastOptions options;
  options.interval_s.reset();
  options.should_stop = [&] { return std::chrono::steady_clock::now() >= deadline || abandoned(); };
  const Result<Forecast> next = control::forecast(snapshot, policy, settings, options);
  if (!next.ok()) return next.error();
  nlohmann::json jobs = nlohmann::json::array();
  for (const ForecastJob& job : next->jobs) {
    const auto known = std::find_if(snapshot.jobs.begin(), snapshot.jobs.end(),
                                    [&](const auto& one) { return one.record.number == job.job; });
    if (known == snapshot.jobs.end() || known->hidden) continue;
    jobs.push_back({{"job", job_name_of(job.job)},
                    {"name", job_title(known->record.document)},
                    {"phase", std::string(to_string(known->record.phase))},
                    {"start_in_s", or_null(job.start_s)},
                    {"finish_in_s", or_null(job.finish_s)},
                    {"guessed", job.guessed}});
  }
  return nlohmann::json{{"policy", policy},
                        {"resizes", next->summary.resizes},
                        {"horizon_s", or_null(next->looked_s)},
                        {"jobs", std::move(jobs)}};
}

}  // namespace rubato::control
