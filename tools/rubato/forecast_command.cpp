// rubato sim --from-live: simulates from the daemon's current state.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "commands.h"
#include "control/snapshot.h"
#include "output.h"

namespace rubato::cli {

namespace {

using control::Forecast;
using control::ForecastJob;
using control::Snapshot;
using nlohmann::json;

json to_json(const std::string& policy, const Forecast& forecast) {
  json jobs = json::array();
  for (const ForecastJob& job : forecast.jobs) {
    jobs.push_back({{"job", control::job_name_of(job.job)},
                    {"start_in_s", job.start_s ? json(*job.start_s) : json(nullptr)},
                    {"finish_in_s", job.finish_s ? json(*job.finish_s) : json(nullptr)},
                    {"guessed", job.guessed}});
  }
  return {{"policy", policy},
          {"mean_finish_s", forecast.summary.mean_jct_s},
          {"last_finish_s", forecast.summary.makespan_s},
          {"resizes", forecast.summary.resizes},
          {"horizon_s", forecast.looked_s ? json(*forecast.looked_s) : json(nullptr)},
          {"jobs", std::move(jobs)}};
}

constexpr auto kLookFor = std::chrono::seconds(30);  // for each policy

// The forecast under one policy, as far as it gets in a bearable time.
Result<Forecast> forecast_under(const Snapshot& snapshot, const std::string& policy,
                                const Settings& settings) {
  const auto deadline = std::chrono::steady_clock::now() + kLookFor;
  control::ForecastOptions options;
  options.interval_s.reset();
  options.should_stop = [deadline] { return std::chrono::steady_clock::now() >= deadline; };
  return control::forecast(snapshot, policy, settings, options);
}

std::string in_text(const std::optional<Seconds>& seconds, const Forecast& forecast) {
  if (seconds) return duration_text(*seconds);
  return forecast.looked_s ? "later" : "never";
}

void print_jobs(const Snapshot& snapshot, const Forecast& forecast) {
  Table table(
      {{"JOB", 9}, {"NAME", 30}, {"STATE", 9}, {"START", 8, true}, {"FINISH", 8, true}, {"", 30}});
  for (const ForecastJob& job : forecast.jobs) {
    const auto found =
        std::find_if(snapshot.jobs.begin(), snapshot.jobs.end(),
                     [&](const auto& known) { return known.record.number == job.job; });
    if (found == snapshot.jobs.end()) continue;
    table.row({control::job_name_of(job.job), control::job_title(found->record.document),
               std::string(control::to_string(found->record.phase)), in_text(job.start_s, forecast),
               in_text(job.finish_s, forecast), job.guessed ? "unknown length: guessed" : ""});
  }
  fmt::print("{}", table.text());
}

}  // namespace

int forecast_live(const ServerChoice& server,
                  std::vector<std::pair<std::string, Settings>> policies, bool as_json) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> answer = client->get("/snapshot");
  if (!answer.ok()) return fail(answer.error());
  const Result<Snapshot> snapshot = control::snapshot_from_json(*answer);
  if (!snapshot.ok()) return fail(snapshot.error());
  if (snapshot->jobs.empty() && !as_json) {
    fmt::print(stderr, "no active jobs: nothing to predict\n");
    return 0;
  }
  const bool comparing = !policies.empty();
  if (!comparing) policies.emplace_back(snapshot->policy.name, snapshot->policy.settings);
  json all = json::array();
  Table table({{"POLICY", 24},
               {"MEAN-FINISH", 12, true},
               {"LAST-FINISH", 12, true},
               {"RESIZES", 8, true},
               {"", 20}});
  for (const auto& [name, settings] : policies) {
    const Result<Forecast> next = forecast_under(*snapshot, name, settings);
    if (!next.ok()) return fail(next.error());
    all.push_back(to_json(name, *next));
    table.row({name, duration_text(next->summary.mean_jct_s),
               duration_text(next->summary.makespan_s), std::to_string(next->summary.resizes),
               name == snapshot->policy.name ? "active" : ""});
    if (!as_json && !comparing) print_jobs(*snapshot, *next);
    if (!as_json && next->looked_s) {
      fmt::print(stderr,
                 "{}: looked {} ahead, no further; what comes later is not in the numbers\n", name,
                 duration_text(*next->looked_s));
    }
  }
  if (!as_json) {
    fmt::print(
        stderr,
        "assumes: the policy decides as simulated, nothing else is submitted, speeds stay as "
        "measured (extrapolated to sizes that were never measured)\n");
  }
  if (as_json) {
    print_json({{"forecasts", all}});
  } else if (comparing) {
    fmt::print("{}", table.text());
    print_next({"rubato policy use NAME"});
  } else {
    print_next({"rubato sim --from-live --policy fifo,pollux,rubato"});
  }
  return 0;
}

}  // namespace rubato::cli
