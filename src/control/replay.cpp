#include "control/replay.h"

#include <algorithm>
#include <utility>

#include "control/json_fields.h"

namespace rubato::control {

namespace {

// Steps and seconds that the jobs of one program spent with a given number of workers.
struct Spent {
  double steps = 0;
  double seconds = 0;
};

// The state of a job when its workers last changed.
struct Standing {
  double at = 0;
  double step = 0;
  int workers = 0;  // 0: not training
  int nodes = 1;
};

// Workers, and the nodes on which they are.
using Shape = std::pair<int, int>;

class Measuring {
 public:
  explicit Measuring(const State& state) : state_(state) {}

  void take(const Event& event) {
    if (event.type == "started") type_ = event.body.value("device_type", "");
    const auto found = state_.jobs.find(event.job);
    if (found == state_.jobs.end()) return;
    Standing& standing = standings_[event.job];
    if (event.type == "learned") {
      stored_as_[profile_key(found->second, type_)] = event.body.value("key", "");
    } else if (event.type == "held") {
      nodes_[event.job] =
          std::max<std::size_t>(1, event.body.value("nodes", nlohmann::json()).size());
    } else if (event.type == "granted") {
      const auto devices = static_cast<int>(number_in(event.body, "devices"));
      if (devices > 0 && standing.workers == 0) granted_at_.try_emplace(event.job, event.at);
      if (devices == 0) standing.workers = 0;
    } else if (event.type == "view" && event.body.value("type", "") == "view") {
      const double step = number_in(event.body, "step");
      const double at = happened_at(event);
      move(found->second, at, step);
      const auto granted = granted_at_.find(event.job);
      if (granted != granted_at_.end()) {
        start_total_ += std::max(0.0, at - granted->second);
        ++starts_;
        granted_at_.erase(granted);
      }
      const auto workers = static_cast<int>(number_in(event.body, "workers"));
      const std::size_t nodes = std::max<std::size_t>(1, nodes_[event.job]);
      standing = {.at = at,
                  .step = step,
                  .workers = workers,
                  .nodes = std::clamp(static_cast<int>(nodes), 1, std::max(1, workers))};
    } else if (event.type == "finished") {
      move(found->second, event.at, number_in(event.body["result"], "steps"));
    }
  }

  Profile profile(const JobRecord& job) const {
    Profile known = stored_profile(state_, job.document, stored_key(job));
    Profile measured(known.logical_workers());
    measured.note_length(known.total_steps(), known.steps_per_epoch(), known.samples());
    const auto found = spent_.find(profile_key(job, type_));
    if (found == spent_.end()) return known;
    for (const auto& [shape, spent] : found->second) {
      const auto& [workers, nodes] = shape;
      if (spent.steps < 1 || workers < 1) continue;
      measured.note({.devices = workers,
                     .nodes = nodes,
                     .batch = std::max<std::int64_t>(1, known.batch()),
                     .step_s = spent.seconds / spent.steps});
    }
    return measured.empty() ? known : measured;
  }

  Seconds start_s() const { return starts_ > 0 ? start_total_ / starts_ : 0; }

 private:
  // Profiles are in the log under the keys of the version that wrote it.
  std::string stored_key(const JobRecord& job) const {
    const std::string key = profile_key(job, type_);
    const auto stored = stored_as_.find(key);
    return stored == stored_as_.end() ? key : stored->second;
  }
  // A view has the runtime's own time: the daemon may have been away when it changed.
  static double happened_at(const Event& view) {
    const double told = number_in(view.body, "at");
    return told > 0 ? std::min(told, view.at) : view.at;
  }
  void move(const JobRecord& job, double at, double step) {
    const Standing& standing = standings_[job.number];
    if (standing.workers < 1 || step <= standing.step) return;
    Spent& spent = spent_[profile_key(job, type_)][{standing.workers, standing.nodes}];
    spent.steps += step - standing.step;
    spent.seconds += at - standing.at;
  }

  const State& state_;
  std::map<JobNumber, Standing> standings_;
  std::map<JobNumber, double> granted_at_;
  std::string type_;  // of the devices
  std::map<std::string, std::map<Shape, Spent>> spent_;
  std::map<JobNumber, std::size_t> nodes_;        // on which its processes are
  std::map<std::string, std::string> stored_as_;  // keys in the log, by profile_key
  double start_total_ = 0;
  int starts_ = 0;
};

Result<Replay> run(const Past& past, const Snapshot& snapshot, const std::string& policy,
                   const Settings& settings) {
  if (snapshot.cluster.devices() < 1) {
    return invalid_input("the log is incomplete: it does not say how many devices there were");
  }
  ResizeModel resize = live_resize_model();
  if (past.start_s > 0) resize.stop_s = past.start_s;
  Result<Forecast> simulated = forecast(snapshot, policy, settings, {.resize = resize});
  if (!simulated.ok()) return simulated.error();
  Replay result;
  result.simulated_share = simulated->summary.allocated_ratio;
  for (const ForecastJob& row : simulated->jobs) {
    const JobHistory& job = past.history.jobs.at(row.job);
    if (!row.finish_s) {
      return invalid_input("the simulated job " + job_name_of(row.job) + " never ends");
    }
    ReplayedJob& replayed = result.jobs.emplace_back();
    replayed.job = row.job;
    replayed.name = job_title(past.state.jobs.at(row.job).document);
    replayed.live_s = job.ended_at - job.submitted_at;
    const double since_snapshot = job.submitted_at - snapshot.at;
    replayed.simulated_wait_s = row.start_s.value_or(since_snapshot) - since_snapshot;
    replayed.simulated_s = *row.finish_s - since_snapshot;
    result.live_mean_s += replayed.live_s;
    result.simulated_mean_s += replayed.simulated_s;
  }
  if (!result.jobs.empty()) {
    result.live_mean_s /= static_cast<double>(result.jobs.size());
    result.simulated_mean_s /= static_cast<double>(result.jobs.size());
  }
  std::sort(result.jobs.begin(), result.jobs.end(),
            [](const ReplayedJob& a, const ReplayedJob& b) { return a.job < b.job; });
  return result;
}

}  // namespace

Past past_of(State state, std::span<const Event> events) {
  Past past;
  past.state = std::move(state);
  past.history = history_of(events);
  Measuring measuring(past.state);
  for (const Event& event : events) measuring.take(event);
  past.start_s = measuring.start_s();
  Snapshot& snapshot = past.submitted;
  auto cluster = LiveCluster::make(past.history.nodes);
  if (cluster.ok()) snapshot.cluster = std::move(*cluster);
  snapshot.policy = {
      .name = past.state.policy, .settings = past.state.policy_settings, .tenants = {}};
  for (const auto& [number, record] : past.state.jobs) {
    if (record.phase != Phase::kFinished || !past.history.jobs.contains(number)) continue;
    SnapshotJob& job = snapshot.jobs.emplace_back();
    job.record.number = number;
    job.record.document = record.document;
    job.record.program_workers = record.program_workers;
    job.record.tenant = record.tenant;
    job.record.submitted_at = record.submitted_at;
    job.profile = measuring.profile(record);
    if (snapshot.at == 0 || record.submitted_at < snapshot.at) snapshot.at = record.submitted_at;
  }
  return past;
}

Result<Replay> replay(const Past& past, const std::string& policy, const Settings& settings) {
  return run(past, past.submitted, policy, settings);
}

Result<std::vector<RigidReplay>> replay_rigid(const Past& past) {
  std::vector<RigidReplay> sizes;
  for (int devices = 1; devices <= past.history.devices; ++devices) {
    Snapshot snapshot = past.submitted;
    bool possible = true;
    for (SnapshotJob& job : snapshot.jobs) {
      JobDocument& document = job.record.document;
      possible = possible && devices <= device_range(job.record).high;
      document.min_devices = document.max_devices = devices;
      document.mode = ElasticMode::kRigid;
    }
    if (!possible) continue;
    Result<Replay> run_once = run(past, snapshot, "fifo", {});
    if (!run_once.ok()) return run_once.error();
    sizes.push_back({.devices = devices, .replay = std::move(*run_once)});
  }
  if (sizes.empty()) return invalid_input("no number of devices fits all jobs");
  std::stable_sort(sizes.begin(), sizes.end(), [](const RigidReplay& a, const RigidReplay& b) {
    return a.replay.simulated_mean_s < b.replay.simulated_mean_s;
  });
  return sizes;
}

}  // namespace rubato::control
