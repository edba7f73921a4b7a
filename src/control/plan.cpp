#include "control/plan.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "control/dependencies.h"
#include "control/explain.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// A job that waits starts at the next decision at the earliest.
constexpr Seconds kSoonest = 1;

SnapshotJob submitted_now(const Snapshot& snapshot, const JobDocument& document,
                          const Profile& known, const WaitsFor& waits_for) {
  SnapshotJob fresh;
  for (const SnapshotJob& job : snapshot.jobs) {
    fresh.record.number = std::max(fresh.record.number, job.record.number);
  }
  ++fresh.record.number;
  fresh.record.document = document;
  fresh.record.tenant = document.tenant;
  fresh.record.submitted_at = snapshot.at;
  fresh.record.waits_for = waits_for;
  fresh.profile = known;
  return fresh;
}

// What changes for the other jobs. Those that the caller may not see are summed up.
void note_changes(json& answer, const std::vector<Action>& actions, const Snapshot& snapshot,
                  JobNumber own) {
  std::set<JobNumber> hidden;
  for (const SnapshotJob& job : snapshot.jobs) {
    if (job.hidden) hidden.insert(job.record.number);
  }
  answer["changes"] = json::array();
  int changed = 0;
  int devices = 0;
  for (const Action& action : actions) {
    const JobNumber number = number_of(action.job);
    if (number == own) continue;
    if (hidden.contains(number)) {
      ++changed;
      devices += action.after.devices() - action.before.devices();
      continue;
    }
    answer["changes"].push_back({{"job", job_name_of(number)},
                                 {"from", action.before.devices()},
                                 {"to", action.after.devices()},
                                 {"reason", std::string(code(action.reason))}});
  }
  answer["others"] = {{"changed", changed}, {"devices", devices}};
}

// Why the job would wait, with the numbers.
std::string waiting_text(JobRecord job, const JobState& decided, const Snapshot& snapshot) {
  State state;
  for (const SnapshotJob& other : snapshot.jobs) state.jobs[other.record.number] = other.record;
  state.tenants = snapshot.policy.tenants;
  if (snapshot.reserved > 0) state.reservations[1] = {.number = 1, .devices = snapshot.reserved};
  job.reason = code(decided.reason);
  job.facts = facts_json(decided.facts);
  return explain(job, state, snapshot.cluster, "").at("text").get<std::string>();
}

// Of the devices that the job would get, or could.
std::string type_of(const JobPlacement& nodes, const JobDocument& document,
                    const LiveCluster& cluster) {
  if (!nodes.empty()) return nodes.front().device_type;
  return document.device_type.empty() ? cluster.device_types() : document.device_type;
}

}  // namespace

Result<json> plan_for(const Snapshot& snapshot, const JobDocument& document, const Profile& known,
                      const PlanLimits& limits, const WaitsFor& waits_for) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(limits.seconds));
  auto live = scheduler_of(snapshot);
  if (!live.ok()) return live.error();
  Snapshot after = snapshot;
  after.jobs.push_back(submitted_now(snapshot, document, known, waits_for));
  const SnapshotJob& fresh = after.jobs.back();
  const JobNumber own = fresh.record.number;
  const Status added = (*live)->add(fresh.record, fresh.profile);
  if (!added.ok()) return added.error();
  std::vector<Action> actions;
  const Result<RoundRecord> round = (*live)->round(actions);
  if (!round.ok()) return round.error();

  const JobState* state = (*live)->state(own);
  const Reason reason = state == nullptr ? Reason::kRejected : state->reason;
  const int devices = state == nullptr ? 0 : state->allocation.devices();
  const JobPlacement nodes =
      state == nullptr ? JobPlacement() : snapshot.cluster.placement_of(state->allocation);
  json answer = {{"placed", devices > 0},
                 {"devices", devices},
                 {"batch", state == nullptr ? 0 : state->allocation.batch},
                 {"reason", std::string(code(reason))},
                 {"text", std::string(explanation(reason))},
                 {"nodes", placement_json(nodes)},
                 {"device_type", type_of(nodes, document, snapshot.cluster)},
                 {"start_in_s", devices > 0 ? json(0.0) : json(nullptr)},
                 {"eta_s", nullptr},
                 {"horizon_s", nullptr},
                 {"guessed", true}};
  note_changes(answer, actions, snapshot, own);
  if (!waits_for.empty()) {
    answer["reason"] = kWaitsForJobs;
    answer["text"] = waits_text(waits_for);
    answer["changes"] = json::array();  // what happens now happens without it
    answer["others"] = {{"changed", 0}, {"devices", 0}};
  } else if (state == nullptr) {
    return answer;
  } else if (devices == 0) {
    answer["text"] = waiting_text(fresh.record, *state, snapshot);
  }

  ForecastOptions options;
  options.decided = live->get();
  if (round->wake_at_s) options.decides_again_s = *round->wake_at_s - snapshot.at;
  options.interval_s.reset();
  options.until = own;
  options.should_stop = [&] {
    return Clock::now() >= deadline || (limits.should_stop && limits.should_stop());
  };
  const Result<Forecast> next =
      forecast(after, snapshot.policy.name, snapshot.policy.settings, options);
  if (!next.ok()) return next.error();
  if (next->looked_s) answer["horizon_s"] = *next->looked_s;
  for (const ForecastJob& job : next->jobs) {
    if (job.job != own) continue;
    if (devices == 0 && job.start_s) answer["start_in_s"] = std::max(kSoonest, *job.start_s);
    if (job.finish_s) answer["eta_s"] = std::max(kSoonest, *job.finish_s);
    answer["guessed"] = job.guessed;
  }
  return answer;
}

}  // namespace rubato::control
