#include "control/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sched/pinned_policy.h"

namespace rubato::control {

namespace {

constexpr Seconds kGuessedLength = 300;  // of a job that was never measured, at its minimum size
constexpr Seconds kStart = 1.0;          // startup time of a job's first process
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
          {"machine", {{"type", snapshot.machine.type}, {"devices", snapshot.machine.devices}}},
          {"reserved", snapshot.reserved},
          {"policy",
           {{"name", snapshot.policy.name},
            {"settings", nlohmann::json(snapshot.policy.settings)},
            {"tenants", std::move(tenants)}}},
          {"jobs", std::move(jobs)}};
}

Result<Snapshot> snapshot_from_json(const nlohmann::json& json) {
  try {
    if (json.at("version") != 1) return invalid_input("snapshot: expected version 1");
    Snapshot snapshot;
    snapshot.at = json.at("at").get<double>();
    snapshot.machine.type = json.at("machine").at("type").get<std::string>();
    snapshot.machine.devices = json.at("machine").at("devices").get<int>();
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

LiveWorkload workload_of(const Snapshot& snapshot) {
  LiveWorkload live;
  live.cluster = Cluster(
      {snapshot.machine.type},
      {Node{.id = NodeId(0), .type = DeviceTypeId(0), .devices = snapshot.machine.devices}});
  live.workload.name = "live";
  std::vector<const SnapshotJob*> order;
  for (const SnapshotJob& job : snapshot.jobs) order.push_back(&job);
  std::stable_sort(order.begin(), order.end(), [](const SnapshotJob* a, const SnapshotJob* b) {
    const bool a_runs = a->record.granted > 0;
    const bool b_runs = b->record.granted > 0;
    return a_runs != b_runs ? a_runs : a->record.submitted_at < b->record.submitted_at;
  });
  for (const SnapshotJob* job : order) {
    LiveJob known(job->record, job->profile, snapshot.machine);
    WorkloadJob& sim = live.workload.jobs.emplace_back();
    sim.spec = known.spec();
    sim.spec.id = JobId(live.numbers.size());
    sim.spec.submit_s = std::max(0.0, job->record.submitted_at - snapshot.at);
    sim.spec.epochs = 1;
    live.numbers.push_back(job->record.number);
    const std::optional<std::int64_t> steps_left = known.steps_left();
    const bool measured = steps_left && !job->profile.empty() && sim.spec.batch.known();
    live.guessed.push_back(!measured);
    if (!measured) {
      sim.spec.batch = {};
      sim.spec.requested_batch = 0;
      sim.spec.logical_workers = 0;
      sim.spec.application = "";
      sim.duration_s = kGuessedLength;
      continue;
    }
    auto updates = static_cast<double>(*steps_left);
    if (sim.spec.mode == ElasticMode::kAdaptive && known.progress().batch > 0) {
      updates *=
          static_cast<double>(known.progress().batch) / static_cast<double>(sim.spec.batch.initial);
    }
    sim.application = application_of(*job, sim.spec, updates);
  }
  return live;
}

Result<Forecast> forecast(const Snapshot& snapshot, const std::string& policy,
                          const Settings& settings, const ResizeModel& resize) {
  const Result<const PolicyInfo*> info = find_policy(policy);
  if (!info.ok()) return info.error();
  const LiveWorkload live = workload_of(snapshot);
  Forecast result;
  if (live.workload.jobs.empty()) return result;
  SimOptions options;
  options.resize = resize;
  options.settings = settings;
  // The daemon runs a round whenever something was measured. The simulator does so only if asked.
  for (const ParamSpec& param : (*info)->params) {
    if (param.name == "interval") options.settings.try_emplace("interval", "1");
  }
  if (snapshot.reserved > 0) {
    options.serving_load.push_back(
        {.time_s = 0, .type = DeviceTypeId(0), .devices = snapshot.reserved});
  }
  auto made = make_policy(**info, options.settings, options.seed);
  if (!made.ok()) return made.error();
  Result<SimResult> simulated = simulate(live.cluster, live.workload, **info,
                                         std::make_unique<PinnedPolicy>(std::move(*made)), options);
  if (!simulated.ok()) return simulated.error();
  result.summary = simulated->summary;
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

Result<nlohmann::json> plan_for(const Snapshot& snapshot, const JobDocument& document) {
  // What happens now: ask the real scheduler, with all jobs in their current state.
  auto live =
      LiveScheduler::make(snapshot.machine, snapshot.policy, [at = snapshot.at] { return at; });
  if (!live.ok()) return live.error();
  JobNumber last = 0;
  for (const SnapshotJob& job : snapshot.jobs) {
    const Status added = (*live)->add(job.record, job.profile);
    if (!added.ok()) return added.error();
    last = std::max(last, job.record.number);
  }
  static_cast<void>((*live)->set_reserved(snapshot.reserved));
  SnapshotJob fresh;
  fresh.record.number = last + 1;
  fresh.record.document = document;
  fresh.record.tenant = document.tenant.empty() ? "default" : document.tenant;
  fresh.record.submitted_at = snapshot.at;
  fresh.profile = Profile(document.mode == ElasticMode::kAdaptive ? 0 : document.logical_workers);
  const std::string key = profile_key(fresh.record, snapshot.machine.type);
  for (const SnapshotJob& job : snapshot.jobs) {
    if (profile_key(job.record, snapshot.machine.type) == key) fresh.profile = job.profile;
  }
  const Status added = (*live)->add(fresh.record, fresh.profile);
  if (!added.ok()) return added.error();
  std::vector<Action> actions;
  const Result<RoundRecord> round = (*live)->round(actions);
  if (!round.ok()) return round.error();

  const JobState* state = (*live)->state(fresh.record.number);
  nlohmann::json changes = nlohmann::json::array();
  std::set<JobNumber> hidden;
  for (const SnapshotJob& job : snapshot.jobs) {
    if (job.hidden) hidden.insert(job.record.number);
  }
  int hidden_changed = 0;
  int hidden_devices = 0;
  for (const Action& action : actions) {
    const JobNumber number = number_of(action.job);
    if (number == fresh.record.number) continue;
    if (hidden.contains(number)) {
      ++hidden_changed;
      hidden_devices += action.after.devices() - action.before.devices();
      continue;
    }
    changes.push_back({{"job", job_name_of(number)},
                       {"from", action.before.devices()},
                       {"to", action.after.devices()},
                       {"reason", std::string(code(action.reason))}});
  }
  const int devices = state == nullptr ? 0 : state->allocation.devices();
  nlohmann::json answer = {
      {"placed", devices > 0},
      {"devices", devices},
      {"batch", state == nullptr ? 0 : state->allocation.batch},
      {"reason", std::string(code(state == nullptr ? Reason::kRejected : state->reason))},
      {"text", std::string(explanation(state == nullptr ? Reason::kRejected : state->reason))},
      {"device_type", snapshot.machine.type},
      {"changes", std::move(changes)},
      {"others", {{"changed", hidden_changed}, {"devices", hidden_devices}}},
      {"start_in_s", nullptr},
      {"eta_s", nullptr},
      {"guessed", true}};

  // What happens later: simulate from here.
  Snapshot after = snapshot;
  after.jobs.push_back(std::move(fresh));
  const Result<Forecast> next = forecast(after, snapshot.policy.name, snapshot.policy.settings);
  if (next.ok() && !next->jobs.empty()) {
    for (const ForecastJob& job : next->jobs) {
      if (job.job != after.jobs.back().record.number) continue;
      if (job.start_s) answer["start_in_s"] = devices > 0 ? 0.0 : *job.start_s;
      if (job.finish_s) answer["eta_s"] = *job.finish_s;
      answer["guessed"] = job.guessed;
    }
  }
  return answer;
}

}  // namespace rubato::control
