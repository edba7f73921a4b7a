// The live system at one moment, as JSON for `rubato sim --from-live` and as the start of a
// simulation that predicts what happens next, under the current policy or another one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/live_scheduler.h"
#include "sim/simulator.h"

namespace rubato::control {

struct SnapshotJob {
  JobRecord record;     // with its latest progress
  Profile profile;      // empty: never measured
  bool hidden = false;  // another tenant's job: takes part in the simulation but is not named
};

struct Snapshot {
  double at = 0;  // seconds since 1970
  LiveCluster cluster;
  LivePolicy policy;
  int reserved = 0;
  std::vector<SnapshotJob> jobs{};  // active ones, in order of submission
};
nlohmann::json to_json(const Snapshot& snapshot);
Result<Snapshot> snapshot_from_json(const nlohmann::json& json);

// A scheduler that knows all jobs of the snapshot and has decided nothing yet.
Result<std::unique_ptr<LiveScheduler>> scheduler_of(const Snapshot& snapshot);

// The cost of a resize in the live system: starting takes a moment; running jobs do not stop.
ResizeModel live_resize_model();

// The jobs with their remaining work. Second 0 is the moment of the snapshot. Jobs that existed
// then arrive at second 0, running ones first; jobs submitted after it arrive later.
struct LiveWorkload {
  Cluster cluster;
  Workload workload;
  std::vector<JobNumber> numbers;  // of the workload's jobs
  std::vector<bool> guessed;       // whether the length is unknown and was assumed
  double device_s = 0;             // device-seconds of all jobs on their smallest sizes
};
inline constexpr Seconds kUsualLength = 300;
struct Assumptions {
  // Length of a job whose length or speed is unknown, on its smallest size.
  Seconds unknown_s = kUsualLength;
  // How much longer the steps of a job take than measured; 1 for those that are not listed.
  std::map<JobNumber, double> slower{};
};
// Jobs that can never run on this cluster are left out, and so are those that wait for something
// that is not expected: for the failure of a job, or for one that is left out. Others that wait
// arrive when what they wait for has ended.
LiveWorkload workload_of(const Snapshot& snapshot, const Assumptions& assumptions = {});

struct ForecastJob {
  JobNumber job = 0;
  std::optional<Seconds> start_s;  // from now; empty: never, or after `looked_s`
  std::optional<Seconds> finish_s;
  bool guessed = false;
};
struct Forecast {
  std::vector<ForecastJob> jobs;
  SimSummary summary;
  // How far it looked, if it did not look to the end; what comes later is unknown.
  std::optional<Seconds> looked_s{};
};
struct ForecastOptions {
  ResizeModel resize = live_resize_model();
  // A scheduler that has just decided, with all jobs of the snapshot: the forecast continues from
  // there. Null: the forecast begins with a decision of its own.
  const LiveScheduler* decided = nullptr;
  std::optional<Seconds> decides_again_s{};  // with `decided`: when that policy wants to be woken
  // Seconds between two decisions of a policy that has an interval. The daemon decides whenever
  // something was measured, which 1 s comes close to. Empty: as many as the work left is worth.
  std::optional<Seconds> interval_s = 1;
  JobNumber until = 0;                  // looks no further than the end of this job; 0: of all
  std::function<bool()> should_stop{};  // see SimLimits
  Assumptions assumptions{};
  // Called after every simulated decision. Ids of jobs are indices of `live.numbers`.
  std::function<void(const LiveWorkload& live, const Scheduler& scheduler)> on_round{};
};
Result<Forecast> forecast(const Snapshot& snapshot, const std::string& policy,
                          const Settings& settings, const ForecastOptions& wanted = {});

}  // namespace rubato::control
