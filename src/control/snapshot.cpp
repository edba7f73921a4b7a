#include "control/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

namespace rubato::control {

namespace {

constexpr Seconds kStart = 1.0;  // startup time of a job's first process
constexpr Seconds kStopFree = 0.05;
// So noisy that a sample counts the same in a large batch as in a small one. The work of an
// adaptive job is therefore counted in samples.
constexpr GradientNoise kSamplesCount{.squared_norm = 1e-9, .variance = 1};

// An application of `updates` updates with the requested batch, at the speed of the profile.
std::shared_ptr<const Application> application_of(const SnapshotJob& job, const JobSpec& spec,
                                                  double updates) {
  Application::Description description;
  description.name = spec.application;
  description.batch = spec.batch;
  description.epochs = 1;
  description.max_devices = spec.max_devices;
  description.fixed_batch = spec.mode != ElasticMode::kAdaptive;
  description.records[spec.batch.initial] = {
      .progress = {updates}, .iteration = {updates}, .noise = {kSamplesCount}};
  description.speed.push_back(speed_of(job.profile));
  return std::make_shared<const Application>(std::move(description));
}

}  // namespace

Result<std::unique_ptr<LiveScheduler>> scheduler_of(const Snapshot& snapshot) {
  auto live =
      LiveScheduler::make(snapshot.cluster, snapshot.policy, [at = snapshot.at] { return at; });
  if (!live.ok()) return live.error();
  std::vector<const JobRecord*> records;
  for (const SnapshotJob& job : snapshot.jobs) records.push_back(&job.record);
  (*live)->begin_turns(records);
  for (const SnapshotJob& job : snapshot.jobs) {
    // A job that no longer fits on this machine takes no part in decisions.
    static_cast<void>((*live)->add(job.record, job.profile));
  }
  static_cast<void>((*live)->set_reserved(snapshot.reserved));
  return live;
}

ResizeModel live_resize_model() { return {.stop_s = kStart, .stop_free_s = kStopFree}; }

nlohmann::json to_json(const Snapshot& snapshot) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const SnapshotJob& job : snapshot.jobs) {
    jobs.push_back({{"record", to_json(job.record)}, {"profile", job.profile.to_json()}});
  }
  nlohmann::json tenants = nlohmann::json::array();
  for (const auto& [name, tenant] : snapshot.policy.tenants) {
    tenants.push_back({{"name", name}, {"weight", tenant.weight}, {"quota", tenant.quota}});
  }
  return {{"version", 1},
          {"at", snapshot.at},
          {"machine",
           {{"type", snapshot.cluster.device_types()}, {"devices", snapshot.cluster.devices()}}},
          {"nodes", nodes_json(snapshot.cluster.nodes())},
          {"reserved", snapshot.reserved},
          {"policy",
           {{"name", snapshot.policy.name},
            {"settings", nlohmann::json(snapshot.policy.settings)},
            {"tenants", std::move(tenants)}}},
          {"jobs", std::move(jobs)}};
}

namespace {

// Snapshots of early versions have only the sums.
Result<LiveCluster> cluster_in(const nlohmann::json& json) {
  nlohmann::json body = {{"devices", json.at("machine").at("devices").get<int>()},
                         {"device_type", json.at("machine").at("type").get<std::string>()}};
  if (json.contains("nodes")) body["nodes"] = json["nodes"];
  return LiveCluster::make(nodes_of_event(body));
}

}  // namespace

Result<Snapshot> snapshot_from_json(const nlohmann::json& json) {
  try {
    if (json.at("version") != 1) return invalid_input("snapshot: expected version 1");
    Snapshot snapshot;
    snapshot.at = json.at("at").get<double>();
    Result<LiveCluster> cluster = cluster_in(json);
    if (!cluster.ok()) return cluster.error();
    snapshot.cluster = std::move(*cluster);
    snapshot.reserved = json.at("reserved").get<int>();
    const nlohmann::json& policy = json.at("policy");
    snapshot.policy.name = policy.at("name").get<std::string>();
    for (const auto& [name, value] : policy.at("settings").items()) {
      snapshot.policy.settings[name] = value.get<std::string>();
    }
    for (const nlohmann::json& row : policy.at("tenants")) {
      const auto name = row.at("name").get<std::string>();
      snapshot.policy.tenants[name] = {.name = name,
                                       .weight = row.at("weight").get<double>(),
                                       .quota = row.at("quota").get<int>(),
                                       .token_sha256 = ""};
    }
    for (const nlohmann::json& row : json.at("jobs")) {
      Result<JobRecord> record = job_from_json(row.at("record"));
      if (!record.ok()) return record.error();
      Result<Profile> profile = Profile::from_json(row.at("profile"));
      if (!profile.ok()) return profile.error();
      snapshot.jobs.push_back({.record = std::move(*record), .profile = std::move(*profile)});
    }
    return snapshot;
  } catch (const nlohmann::json::exception& error) {
    return invalid_input(fmt::format("snapshot: {}", error.what()));
  }
}

namespace {

// The jobs whose end a job waits for: those it names, or the one before it in its array. Empty: it
// waits for none. No value: what it waits for is not part of the snapshot, or never expected.
class Awaited {
 public:
  explicit Awaited(const Snapshot& snapshot) {
    std::vector<const JobRecord*> records;
    for (const SnapshotJob& job : snapshot.jobs) records.push_back(&job.record);
    turns_.begin(records);
  }

  std::optional<std::vector<std::size_t>> of(const JobRecord& job) {
    std::vector<std::size_t> indices;
    for (const auto& [other, when] : job.waits_for) {
      const auto found = index_of_.find(other);
      if (found == index_of_.end() || when == When::kFailed) return std::nullopt;
      indices.push_back(found->second);
    }
    if (job.array.at_once == 0) return indices;
    std::deque<JobNumber>& lane = lanes_[job.array.first];
    // Those who wait for other jobs take turns when these have ended.
    const bool has_turn = job.waits_for.empty() ? turns_.join(job)
                                                : static_cast<int>(lane.size()) < job.array.at_once;
    if (!has_turn) {
      const auto before = lane.empty() ? index_of_.end() : index_of_.find(lane.front());
      if (before == index_of_.end()) return std::nullopt;
      indices.push_back(before->second);
      lane.pop_front();
    }
    lane.push_back(job.number);
    return indices;
  }
  // The job is part of the workload.
  void note(JobNumber job, std::size_t index) { index_of_[job] = index; }

 private:
  ArrayTurns turns_;
  std::map<JobNumber, std::deque<JobNumber>> lanes_;  // of arrays: who ends before the next starts
  std::map<JobNumber, std::size_t> index_of_;
};

}  // namespace

LiveWorkload workload_of(const Snapshot& snapshot, const Assumptions& assumptions) {
  LiveWorkload live;
  live.cluster = snapshot.cluster.cluster();
  live.workload.name = "live";
  std::vector<const SnapshotJob*> order;
  for (const SnapshotJob& job : snapshot.jobs) order.push_back(&job);
  std::stable_sort(order.begin(), order.end(), [](const SnapshotJob* a, const SnapshotJob* b) {
    const bool a_runs = a->record.granted > 0;
    const bool b_runs = b->record.granted > 0;
    return a_runs != b_runs ? a_runs : a->record.submitted_at < b->record.submitted_at;
  });
  Awaited awaited(snapshot);
  for (const SnapshotJob* job : order) {
    const LiveJob known(job->record, job->profile, snapshot.cluster);
    const int most = snapshot.cluster.most_devices(job->record.document);
    if (known.spec().allowed_types == 0 || known.spec().min_devices > most) continue;
    std::optional<std::vector<std::size_t>> after = awaited.of(job->record);
    if (!after) continue;
    awaited.note(job->record.number, live.numbers.size());
    WorkloadJob& sim = live.workload.jobs.emplace_back();
    sim.after = std::move(*after);
    sim.spec = known.spec();
    sim.spec.id = JobId(live.numbers.size());
    sim.spec.submit_s = std::max(0.0, job->record.submitted_at - snapshot.at);
    sim.spec.epochs = 1;
    live.numbers.push_back(job->record.number);
    const std::optional<std::int64_t> steps_left = known.steps_left();
    const bool measured = steps_left && !job->profile.empty() && sim.spec.batch.known();
    live.guessed.push_back(!measured);
    const std::optional<Seconds> left_s = known.seconds_left(sim.spec.min_devices);
    live.device_s += sim.spec.min_devices * (measured && left_s ? *left_s : kUsualLength);
    if (!measured) {
      sim.spec.batch = {};
      sim.spec.requested_batch = 0;
      sim.spec.logical_workers = 0;
      sim.spec.application = "";
      sim.duration_s = assumptions.unknown_s;
      continue;
    }
    auto updates = static_cast<double>(*steps_left);
    if (sim.spec.mode == ElasticMode::kAdaptive && known.progress().batch > 0) {
      updates *=
          static_cast<double>(known.progress().batch) / static_cast<double>(sim.spec.batch.initial);
    }
    // More steps of the measured length end when as many longer ones do.
    if (const auto slower = assumptions.slower.find(job->record.number);
        slower != assumptions.slower.end()) {
      updates *= slower->second;
    }
    sim.application = application_of(*job, sim.spec, updates);
  }
  return live;
}

namespace {

constexpr Seconds kFarthest = 60 * 86'400.0;  // nobody plans further ahead

// Decisions of a policy with an interval. Each costs time, and what is far ahead is a guess anyway.
Seconds interval_for(const LiveWorkload& live) {
  constexpr double kDecisions = 200;
  constexpr Seconds kLongest = 60;
  return std::clamp(live.device_s / live.cluster.devices() / kDecisions, 1.0, kLongest);
}

// The devices that `decided` gave each job, as the past of a simulation that begins now.
SimStart start_of(const LiveWorkload& live, const Snapshot& snapshot, const LiveScheduler& decided,
                  const ResizeModel& resize) {
  std::map<JobNumber, std::vector<NodeShare>> had;
  for (const SnapshotJob& job : snapshot.jobs) {
    had[job.record.number] = snapshot.cluster.allocation_of(job.record).shares;
  }
  SimStart start;
  for (std::size_t i = 0; i < live.numbers.size(); ++i) {
    SimStart::Job& row = start.jobs.emplace_back();
    const JobState* state = decided.state(live.numbers[i]);
    if (state == nullptr) continue;  // turned away
    row.past = {.allocation = state->allocation,
                .changed_at_s = std::min(0.0, state->changed_at_s - snapshot.at),
                .executed_s = state->executed_until_change_s,
                .service = state->service_until_change,
                .starts = state->starts,
                .resizes = state->resizes};
    if (!live.workload.jobs[i].application) row.past.allocation.batch = 0;
    const std::vector<NodeShare>& before = had[live.numbers[i]];
    if (before.empty()) {
      row.pause_s = resize.stop_s;
    } else if (before != state->allocation.shares) {
      row.pause_s = resize.stop_free_s.value_or(resize.stop_s);
    }
  }
  return start;
}

}  // namespace

Result<Forecast> forecast(const Snapshot& snapshot, const std::string& policy,
                          const Settings& settings, const ForecastOptions& wanted) {
  const Result<const PolicyInfo*> info = find_policy(policy);
  if (!info.ok()) return info.error();
  const LiveWorkload live = workload_of(snapshot, wanted.assumptions);
  Forecast result;
  if (live.workload.jobs.empty()) return result;
  SimOptions options;
  options.resize = wanted.resize;
  options.settings = settings;
  const Seconds interval_s = wanted.interval_s ? *wanted.interval_s : interval_for(live);
  for (const ParamSpec& param : (*info)->params) {
    if (param.name != "interval") continue;
    options.settings.try_emplace("interval", fmt::format("{}", interval_s));
  }
  int to_reserve = snapshot.reserved;
  for (std::size_t type = 0; type < live.cluster.type_count() && to_reserve > 0; ++type) {
    const int devices = std::min(to_reserve, live.cluster.capacity().of[type]);
    options.serving_load.push_back({.time_s = 0, .type = DeviceTypeId(type), .devices = devices});
    to_reserve -= devices;
  }
  if (wanted.on_round) {
    options.on_round = [&](const Scheduler& scheduler) { wanted.on_round(live, scheduler); };
  }
  options.limits = {.horizon_s = kFarthest, .until_job = {}, .should_stop = wanted.should_stop};
  const auto until = std::find(live.numbers.begin(), live.numbers.end(), wanted.until);
  if (until != live.numbers.end()) {
    options.limits.until_job = static_cast<std::size_t>(until - live.numbers.begin());
  }
  if (wanted.decided != nullptr) {
    options.start = start_of(live, snapshot, *wanted.decided, wanted.resize);
    options.start->decides_again_s = wanted.decides_again_s
                                         ? std::max(*wanted.decides_again_s, interval_s)
                                         : std::numeric_limits<double>::infinity();
  }
  auto made = make_live_policy(
      {.name = policy, .settings = options.settings, .tenants = snapshot.policy.tenants});
  if (!made.ok()) return made.error();
  Result<SimResult> simulated =
      simulate(live.cluster, live.workload, **info, std::move(*made), options);
  if (!simulated.ok()) return simulated.error();
  result.summary = simulated->summary;
  if (simulated->end == SimEnd::kHorizon || simulated->end == SimEnd::kStopped) {
    result.looked_s = simulated->end_s;
  }
  for (std::size_t i = 0; i < simulated->jobs.size(); ++i) {
    const JobResult& job = simulated->jobs[i];
    ForecastJob& row = result.jobs.emplace_back();
    row.job = live.numbers[i];
    row.guessed = live.guessed[i];
    if (job.start_s >= 0) row.start_s = job.start_s;
    if (job.finished()) row.finish_s = job.finish_s;
  }
  return result;
}

}  // namespace rubato::control
