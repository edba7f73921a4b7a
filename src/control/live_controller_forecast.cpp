// What will happen to the jobs, and what would under another policy.
#include <algorithm>
#include <chrono>

#include "control/live_controller.h"
#include "control/outlook.h"
#include "control/snapshot.h"

namespace rubato::control {

namespace {

constexpr auto kPatience = std::chrono::milliseconds(2000);
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

Result<Outlook> LiveController::look_ahead(const std::function<bool()>& should_stop) const {
  const Snapshot snapshot = take_snapshot({.tenant = "", .admin = true});
  std::map<JobNumber, StepSpread> spreads;
  {
    const ReadLock lock(mutex_);
    for (const auto& [number, live] : live_) {
      if (const auto spread = live.step_times.spread()) spreads[number] = *spread;
    }
  }
  return outlook_of(snapshot, spreads, {.should_stop = should_stop});
}

Result<nlohmann::json> LiveController::outlook(const Caller& caller, JobNumber job) const {
  const Result<JobRecord> record = visible(caller, job);
  if (!record.ok()) return record.error();
  const std::shared_ptr<const Outlook> newest =
      ended(record->phase) ? nullptr : lookout_->newest(kPatience);
  JobOutlook row;
  double passed_s = 0;
  if (newest != nullptr) {
    const auto found = newest->jobs.find(job);
    if (found != newest->jobs.end()) row = found->second;
    passed_s = std::max(0.0, now_unix() - newest->at);
  }
  // What was planned has happened since, or something else has.
  if (row.change && row.change->from != record->granted) row.change.reset();
  nlohmann::json answer = outlook_json(row, passed_s, [&](JobNumber other) {
    const Result<JobRecord> seen = visible(caller, other);
    return seen.ok() ? job_title(seen->document) : std::string();
  });
  answer["job"] = job_name_of(job);
  answer["at"] = now_unix();
  if (ended(record->phase)) answer["text"] = "has ended";
  return answer;
}

}  // namespace rubato::control
