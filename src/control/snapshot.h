// The live system at one moment, as JSON for `rubato sim --from-live` and as the start of a
// simulation: what happens next, under this policy or another.
#pragma once

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
  bool hidden = false;  // another tenant's: it takes part, but who it is is not told
};

struct Snapshot {
  double at = 0;  // seconds since 1970
  Machine machine;
  LivePolicy policy;
  int reserved = 0;
  std::vector<SnapshotJob> jobs{};  // active ones, in order of submission
};
nlohmann::json to_json(const Snapshot& snapshot);
Result<Snapshot> snapshot_from_json(const nlohmann::json& json);

// What a change of devices costs in the live system: starting a job takes a moment, a running one
// is not stopped.
ResizeModel live_resize_model();

// The jobs with the work they have left. Second 0 is the snapshot's moment: whoever was there then
// arrives at it, running ones first; whoever was submitted after it arrives later.
struct LiveWorkload {
  Cluster cluster;
  Workload workload;
  std::vector<JobNumber> numbers;  // of the workload's jobs
  std::vector<bool> guessed;       // length unknown: assumed
};
LiveWorkload workload_of(const Snapshot& snapshot);

struct ForecastJob {
  JobNumber job = 0;
  std::optional<Seconds> start_s;  // from now; nothing: never
  std::optional<Seconds> finish_s;
  bool guessed = false;
};
struct Forecast {
  std::vector<ForecastJob> jobs;
  SimSummary summary;
};
Result<Forecast> forecast(const Snapshot& snapshot, const std::string& policy,
                          const Settings& settings,
                          const ResizeModel& resize = live_resize_model());

// What would happen to this document if it were submitted now (see Controller::plan).
Result<nlohmann::json> plan_for(const Snapshot& snapshot, const JobDocument& document);

}  // namespace rubato::control
