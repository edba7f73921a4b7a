#include "control/replay.h"

#include <algorithm>

namespace rubato::control {

namespace {

Result<Replay> run(const Snapshot& snapshot, const History& history, const std::string& policy,
                   const Settings& settings) {
  Result<Forecast> simulated = forecast(snapshot, policy, settings);
  if (!simulated.ok()) return simulated.error();
  Replay result;
  result.simulated_share = simulated->summary.allocated_ratio;
  for (const ForecastJob& row : simulated->jobs) {
    const JobHistory& past = history.jobs.at(row.job);
    if (!row.finish_s)
      return invalid_input("the simulated job " + job_name_of(row.job) + " never ends");
    ReplayedJob& job = result.jobs.emplace_back();
    job.job = row.job;
    job.live_s = past.ended_at - past.submitted_at;
    job.simulated_s = *row.finish_s - (past.submitted_at - snapshot.at);
    result.live_mean_s += job.live_s;
    result.simulated_mean_s += job.simulated_s;
  }
  if (!result.jobs.empty()) {
    result.live_mean_s /= static_cast<double>(result.jobs.size());
    result.simulated_mean_s /= static_cast<double>(result.jobs.size());
  }
  std::sort(result.jobs.begin(), result.jobs.end(),
            [](const ReplayedJob& a, const ReplayedJob& b) { return a.job < b.job; });
  for (ReplayedJob& job : result.jobs) {
    for (const SnapshotJob& known : snapshot.jobs) {
      if (known.record.number == job.job) job.name = job_title(known.record.document);
    }
  }
  return result;
}

}  // namespace

Snapshot as_submitted(const State& state, const History& history) {
  Snapshot snapshot;
  snapshot.machine.devices = history.devices;
  snapshot.policy = {.name = state.policy, .settings = state.policy_settings, .tenants = {}};
  for (const auto& [number, record] : state.jobs) {
    if (record.phase != Phase::kFinished) continue;
    SnapshotJob& job = snapshot.jobs.emplace_back();
    job.record.number = number;
    job.record.document = record.document;
    job.record.tenant = record.tenant;
    job.record.submitted_at = record.submitted_at;
    job.profile = known_profile(state, record.document);
    if (snapshot.at == 0 || record.submitted_at < snapshot.at) snapshot.at = record.submitted_at;
  }
  return snapshot;
}

Result<Replay> replay(const State& state, const History& history, const std::string& policy,
                      const Settings& settings) {
  return run(as_submitted(state, history), history, policy, settings);
}

Result<RigidReplay> replay_rigid(const State& state, const History& history) {
  RigidReplay best;
  for (int devices = 1; devices <= history.devices; ++devices) {
    Snapshot snapshot = as_submitted(state, history);
    bool possible = true;
    for (SnapshotJob& job : snapshot.jobs) {
      JobDocument& document = job.record.document;
      possible = possible && devices <= document.max_devices;
      document.logical_workers = document.resolved_logical_workers();
      document.min_devices = document.max_devices = devices;
      document.mode = ElasticMode::kRigid;
    }
    if (!possible) continue;
    Result<Replay> run_once = run(snapshot, history, "fifo", {});
    if (!run_once.ok()) return run_once.error();
    if (best.devices == 0 || run_once->simulated_mean_s < best.replay.simulated_mean_s) {
      best = {.devices = devices, .replay = std::move(*run_once)};
    }
  }
  if (best.devices == 0) return invalid_input("no number of devices fits all jobs");
  return best;
}

}  // namespace rubato::control
