#include "control/event_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/located_json.h"
#include "base/names.h"
#include "base/text.h"
#include "control/cluster/node_events.h"
#include "control/job_fields.h"
#include "elastic/job/metrics.h"

namespace rubato::control {

namespace {

using nlohmann::json;

Error refused(const Event& event, const std::string& problem) {
  const std::string job = event.job == 0 ? "" : fmt::format(" of job {}", job_name_of(event.job));
  return invalid_input(fmt::format("event '{}'{}: {}", event.type, job, problem));
}

// Ids of the scheduler have 32 bits.
constexpr JobNumber kLastJobNumber = std::numeric_limits<std::int32_t>::max() - 1;

int count_in(const Event& event, const char* field) { return event.body.at(field).get<int>(); }
std::string text_in(const Event& event, const char* field) {
  return event.body.value(field, std::string());
}

Result<JobRecord*> known_job(State& state, const Event& event) {
  const auto found = state.jobs.find(event.job);
  if (found == state.jobs.end()) return refused(event, "no such job");
  if (found->second.tenant != event.tenant) {
    return refused(event, fmt::format("tenant '{}'; the job belongs to '{}'", event.tenant,
                                      found->second.tenant));
  }
  return &found->second;
}

Result<JobRecord*> active_job(State& state, const Event& event) {
  auto job = known_job(state, event);
  if (job && ended((*job)->phase)) {
    return refused(event, fmt::format("it has ended ({})", to_string((*job)->phase)));
  }
  return job;
}

Status check_size(const JobRecord& job, const Event& event, int devices) {
  const DeviceRange range = device_range(job);
  if (devices >= range.low && devices <= range.high) return ok_status();
  return refused(
      event, fmt::format("{} devices; the job's range is {}..{}", devices, range.low, range.high));
}

// Where the devices are; events of early versions do not say it.
Result<JobPlacement> nodes_in(const Event& event, int devices) {
  const auto found = event.body.find("nodes");
  if (found == event.body.end()) return unnamed_placement(devices);
  auto nodes = placement_from_json(*found);
  if (!nodes) return refused(event, "nodes: " + nodes.error().message);
  if (devices_on(*nodes) == devices) return nodes;
  return refused(event, fmt::format("nodes: they have {} devices together; expected {}",
                                    devices_on(*nodes), devices));
}

Status nothing(State& /*state*/, const Event& /*event*/) { return ok_status(); }

Status about_known_job(State& state, const Event& event) {
  const auto job = known_job(state, event);
  return job ? ok_status() : Status(job.error());
}

Status submitted(State& state, const Event& event) {
  if (event.job != state.next_job) {
    return refused(event, fmt::format("expected the number {}", job_name_of(state.next_job)));
  }
  auto document = stored_document(event.body.at("document"));
  if (!document) return refused(event, document.error().message);
  if (document->run.empty()) return refused(event, "nothing to run");
  JobRecord job;
  job.key = text_in(event, "key");
  if (!job.key.empty()) {
    KeyUse& use = state.keys[{event.tenant, job.key}];
    if (use.job != 0 && event.at < use.at + kKeyLasts) {
      return refused(event, "its key was already used");
    }
    use = {.job = event.job, .at = event.at};
  }
  job.uid = text_in(event, "uid");
  job.number = event.job;
  job.document = std::move(*document);
  job.tenant = event.tenant;
  job.submitted_at = event.at;
  job.held_at = event.at;
  job.waits_for = waits_from(event.body.value("waits_for", json()));
  job.array = array_from(event.body.value("array", json()));
  state.jobs.emplace(event.job, std::move(job));
  ++state.next_job;
  return ok_status();
}

Status unblocked(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  const auto other = parse_job_number(text_in(event, "by"));
  if (!other || (*job)->waits_for.erase(*other) == 0) {
    return refused(event, fmt::format("it does not wait for {}", shown(event.body.at("by"))));
  }
  return ok_status();
}

Status granted(State& state, const Event& event) {
  const auto found = active_job(state, event);
  if (!found) return found.error();
  JobRecord& job = **found;
  const int devices = count_in(event, "devices");
  auto nodes = nodes_in(event, devices);
  if (!nodes) return nodes.error();
  if (devices > 0) {
    if (job.phase == Phase::kPaused) return refused(event, "it is paused");
    if (!job.waits_for.empty()) return refused(event, "it waits for other jobs");
    if (auto status = check_size(job, event, devices); !status) return status;
    if (job.started_at == 0) job.started_at = event.at;
    if (job.granted > 0 && (job.granted != devices || job.nodes != *nodes)) ++job.resizes;
  }
  if (job.phase != Phase::kPaused) job.phase = devices > 0 ? Phase::kRunning : Phase::kQueued;
  if (devices == 0) job.stalled_since = 0;
  job.granted = devices;
  job.nodes = std::move(*nodes);
  job.batch = event.body.value("batch", std::int64_t{0});
  job.reason = text_in(event, "reason");
  job.facts = event.body.value("facts", json::object());
  return ok_status();
}

// The job has what it had; only the names of its nodes are others.
Status placed(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  auto nodes = nodes_in(event, (*job)->granted);
  if (!nodes) return nodes.error();
  (*job)->nodes = std::move(*nodes);
  return ok_status();
}

Status held(State& state, const Event& event) {
  const auto found = known_job(state, event);
  if (!found) return found.error();
  JobRecord& job = **found;
  const int devices = count_in(event, "devices");
  auto nodes = nodes_in(event, devices);
  if (!nodes) return nodes.error();
  if (ended(job.phase) && devices > job.held) {
    return refused(event, "it has ended and can only give devices back");
  }
  job.device_s = device_seconds(job, event.at);
  const double clock = event.body.value("clock", 0.0);
  job.held_s = held_seconds(job, event.at, clock);
  job.held = devices;
  job.held_nodes = std::move(*nodes);
  job.held_at = event.at;
  job.held_clock = clock;
  return ok_status();
}

Status progress(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  nlohmann::json body = event.body;
  for (const char* kept : {"events_offset", "node_offsets", "metrics"}) {
    const auto known = (*job)->progress.find(kept);
    if (known != (*job)->progress.end() && !body.contains(kept)) body[kept] = *known;
  }
  (*job)->progress = std::move(body);
  return ok_status();
}

// The newest value of each metric that its program reported, and no more names than a program may
// have.
void note_metrics(JobRecord& job, const nlohmann::json& line) {
  const auto values = line.find("values");
  if (line.value("type", json()) != "metrics" || values == line.end()) return;
  json& known = job.progress["metrics"];
  if (!known.is_object()) known = json::object();
  for (const auto& [name, value] : values->items()) {
    if (known.contains(name) || known.size() < elastic::kMostMetrics) known[name] = value;
  }
}

// The offset in the runtime's own log is part of the state, so that the next daemon continues after
// the lines already recorded.
Status view(State& state, const Event& event) {
  const auto job = known_job(state, event);
  if (!job) return job.error();
  const auto offset = event.body.find("events_offset");
  if (offset != event.body.end() && offset->is_number_integer()) {
    const auto node = event.body.find("node");
    if (node != event.body.end() && node->is_string()) {
      json& offsets = (*job)->progress["node_offsets"];
      if (!offsets.is_object()) offsets = json::object();
      offsets[node->get<std::string>()] = *offset;
    } else {
      (*job)->progress["events_offset"] = *offset;
    }
  }
  note_metrics(**job, event.body);
  return ok_status();
}

Status paused(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  if ((*job)->phase == Phase::kPaused) return refused(event, "it is already paused");
  (*job)->phase = Phase::kPaused;
  (*job)->granted = 0;
  (*job)->nodes.clear();
  (*job)->stalled_since = 0;
  (*job)->reason = "paused";
  (*job)->facts = json::object();
  return ok_status();
}

Status resumed(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  if ((*job)->phase != Phase::kPaused) return refused(event, "it is not paused");
  (*job)->phase = Phase::kQueued;
  (*job)->reason = "";  // nothing was decided about it
  return ok_status();
}

Status scaled(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  const int devices = count_in(event, "devices");
  if (devices > 0) {
    if (auto status = check_size(**job, event, devices); !status) return status;
  }
  (*job)->scale = devices;
  return ok_status();
}

Status changed(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  json fields = to_json((*job)->document);
  for (const auto& [name, value] : event.body.at("fields").items()) {
    if (std::find(kChangeableFields.begin(), kChangeableFields.end(), name) ==
        kChangeableFields.end()) {
      return refused(event, fmt::format("{} cannot be changed", shown(json(name))));
    }
    fields[name] = value;
  }
  auto document = stored_document(fields);
  if (!document) return refused(event, document.error().message);
  (*job)->document = std::move(*document);
  return ok_status();
}

Status end_job(State& state, const Event& event, Phase phase) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  (*job)->phase = phase;
  (*job)->granted = 0;
  (*job)->nodes.clear();
  (*job)->stalled_since = 0;
  (*job)->ended_at = event.at;
  (*job)->reason = to_string(phase);
  (*job)->facts = json::object();
  (*job)->message = text_in(event, "message");
  if (event.body.contains("result")) (*job)->result = event.body.at("result");
  ++state.ended_jobs[phase];
  return ok_status();
}

Result<Phase> phase_at_removal(const Event& event) {
  const std::string name = text_in(event, "phase");
  const std::optional<Phase> phase = parse_phase(name);
  if (!phase || !ended(*phase)) {
    return refused(event, fmt::format("phase: {}; expected one that is an end", shown(json(name))));
  }
  return *phase;
}

Status removed(State& state, const Event& event) {
  const auto job = known_job(state, event);
  if (!job) return job.error();
  const auto phase = phase_at_removal(event);
  if (!phase) return phase.error();
  if ((*job)->phase != *phase) {
    return refused(event, fmt::format("it is {}", to_string((*job)->phase)));
  }
  if (!at_rest(**job)) return refused(event, "it still holds devices");
  --state.ended_jobs[*phase];
  state.jobs.erase(event.job);
  return ok_status();
}

Status removed_at_rest(State& state, const Event& event) {
  const auto phase = phase_at_removal(event);
  if (!phase) return phase.error();
  --state.ended_jobs[*phase];
  return ok_status();
}

// The number of kinds is bounded by whoever reports them; the last one of a kind counts.
Status file_error(State& state, const Event& event) {
  const auto job = known_job(state, event);
  if (!job) return job.error();
  (*job)->errors[text_in(event, "kind")] = {{"place", text_in(event, "place")},
                                            {"message", text_in(event, "message")},
                                            {"count", event.body.value("count", std::int64_t{1})}};
  return ok_status();
}

Status restarted(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  ++(*job)->restarts;
  (*job)->stalled_since = 0;
  return ok_status();
}

Status stalled(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  if ((*job)->phase != Phase::kRunning) return refused(event, "it does not run");
  (*job)->stalled_since = std::max(0.0, event.at - event.body.at("for_s").get<double>());
  return ok_status();
}

Status recovered(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  (*job)->stalled_since = 0;
  return ok_status();
}

Status capped(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  (*job)->max_useful = count_in(event, "max_useful");
  return ok_status();
}

Status program(State& state, const Event& event) {
  const auto job = active_job(state, event);
  if (!job) return job.error();
  const int workers = count_in(event, "logical_workers");
  if (workers < 1) return refused(event, "a program has at least one logical worker");
  (*job)->program_workers = workers;
  return ok_status();
}

Status learned(State& state, const Event& event) {
  std::string key = text_in(event, "key");
  if (key.empty()) return refused(event, "its key is empty");
  state.profiles[std::move(key)] = event.body.at("profile");
  return ok_status();
}

Status policy(State& state, const Event& event) {
  std::string name = text_in(event, "name");
  if (name.empty()) return refused(event, "its name is empty");
  state.policy = std::move(name);
  state.policy_settings.clear();
  for (const auto& [key, value] : event.body.at("settings").items()) {
    state.policy_settings[key] = value.get<std::string>();
  }
  return ok_status();
}

Status supply(State& state, const Event& event) {
  state.supply = text_in(event, "text");
  state.supply_until = event.body.at("until").get<double>();
  return ok_status();
}

Status reserved(State& state, const Event& event) {
  const auto number = event.body.at("number").get<std::int64_t>();
  if (number != state.next_reservation) {
    return refused(event, fmt::format("expected the number {}", state.next_reservation));
  }
  const Reservation reservation{number, count_in(event, "devices"), event.at,
                                event.body.at("until").get<double>()};
  if (reservation.devices == 0) return refused(event, "no devices");
  if (reservation.until <= reservation.from) return refused(event, "it ends before it begins");
  state.reservations.emplace(number, reservation);
  ++state.next_reservation;
  return ok_status();
}

Status released(State& state, const Event& event) {
  const auto number = event.body.at("number").get<std::int64_t>();
  if (state.reservations.erase(number) == 0) {
    return refused(event, fmt::format("no reservation {}", number));
  }
  return ok_status();
}

// The numbers below were used in a history that is not in this log.
Status renumbered(State& state, const Event& event) {
  const auto next = event.body.at("next_job").get<JobNumber>();
  if (next <= state.next_job) {
    return refused(event, fmt::format("expected a number above {}", state.next_job));
  }
  if (next > kLastJobNumber) return refused(event, "there is no such number");
  state.next_job = next;
  return ok_status();
}

Status tenant_removed(State& state, const Event& event) {
  const std::string name = text_in(event, "name");
  if (!state.tenants.contains(name)) return refused(event, "no such tenant");
  state.tenants.erase(name);
  return ok_status();
}

Status tenant(State& state, const Event& event) {
  Tenant tenant{.name = text_in(event, "name"),
                .weight = event.body.at("weight").get<double>(),
                .quota = count_in(event, "quota"),
                .token_sha256 = text_in(event, "token_sha256"),
                .token_expires = event.body.value("token_expires", 0.0),
                .max_queued = event.body.value("max_queued", 0),
                .max_streams = event.body.value("max_streams", 0)};
  if (const auto problem = name_problem(tenant.name); !problem.empty()) {
    return refused(event, fmt::format("its name: {}", problem));
  }
  if (tenant.weight <= 0) return refused(event, "expected a weight above 0");
  const bool hex = tenant.token_sha256.size() == 64 &&
                   tenant.token_sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!tenant.token_sha256.empty() && !hex) {
    return refused(event, "token_sha256: expected 64 hexadecimal digits or nothing");
  }
  const auto known = state.tenants.find(tenant.name);
  tenant.user = known == state.tenants.end() ? "" : known->second.user;
  if (event.body.contains("user")) tenant.user = text_in(event, "user");
  state.tenants[tenant.name] = std::move(tenant);
  return ok_status();
}

Status tenant_user(State& state, const Event& event) {
  const auto known = state.tenants.find(text_in(event, "name"));
  if (known == state.tenants.end()) return refused(event, "no such tenant");
  known->second.user = text_in(event, "user");
  return ok_status();
}

const std::vector<EventType>& table() {
  using enum FieldKind;
  // clang-format off
  static const std::vector<EventType> kTypes{
      {"started", Subject::kNothing, "The daemon started.",
       {{"nodes", kNodes, false, "nodes on which jobs can run, with all their devices"}}, true, nothing},
      {"nodes", Subject::kNothing, "The nodes on which jobs can run have changed.",
       {{"devices", kCount, true, "of all nodes"}, {"device_type", kText, true, "of all nodes; several are joined by commas"},
        {"nodes", kNodes, true, "with all their devices"}}, false, nothing},
      {"warning", Subject::kNothing, "Something an operator should know that is not a failure, such as a job that cannot use all its devices.",
       {{"message", kText, true, "what happened"}}, true, nothing},
      {"error", Subject::kJob, "Something in the job's folder is not as it should be ([live.md](live.md) has the rules). Recorded once per job and kind, and once more with the final `count` when the job is over.",
       {{"kind", kText, true, "what it concerns: `events`, `too-many-events`, `status`, `result`, `registry`, `progress`, `folder` or `notice`"},
        {"place", kText, true, "file, and byte in it"}, {"message", kText, true, "what was found, what was expected and what follows"},
        {"count", kWhole, true, "how often so far"}}, false, file_error, nothing},
      {"submitted", Subject::kJob, "A job was accepted.",
       {{"document", kObject, true, "the job, as in [jobs.md](jobs.md)"},
        {"key", kText, false, "idempotency key; a submission repeated with it returns this job"},
        {"uid", kText, false, "identifies the submission for ever; its folder belongs to it"},
        {"waits_for", kTexts, false, "jobs that it waits for, and how each must end: `finished`, `failed` or `ended`"},
        {"array", kObject, false, "the array it was submitted with: id of its `first` job, `name`, `size`, jobs `at_once` (0: no limit), and this job's `index`"}},
       false, submitted},
      {"unblocked", Subject::kJob, "A job that this one waits for has ended as it should. Recorded together with that end.",
       {{"by", kText, true, "the other job"}, {"outcome", kText, true, "how it ended"}}, false, unblocked},
      {"granted", Subject::kJob, "The scheduler granted the job devices. With 0 devices the job waits; the reason says why.",
       {{"devices", kCount, true, "how many"}, {"nodes", kNodes, false, "where they are; missing in logs of early versions"},
        {"batch", kWhole, false, "total batch of an adaptive job; 0: the job's own choice"},
        {"reason", kText, true, "reason code of the decision"},
        {"facts", kObject, false, "numbers behind the decision: devices `before` and `after`, the fewest the job `needs`, those `free` and `usable`, those that went `to_others`"}},
       false, granted},
      {"held", Subject::kJob, "The job's processes now occupy this many devices.",
       {{"devices", kCount, true, "how many"}, {"nodes", kNodes, false, "where they are; missing in logs of early versions"},
        {"clock", kNumber, false, "the moment by a clock that nobody can set, in seconds; `time_limit` is counted by it"}}, false, held, nothing},
      {"placed", Subject::kJob, "The nodes of a job's devices have other names than its last `granted` event says: the machine has another name since the daemon's restart, or the log did not name them. Nothing else changed.",
       {{"nodes", kNodes, true, "where they are"}}, false, placed},
      {"progress", Subject::kJob, "The job's progress.",
       {{"step", kWhole, false, "steps done"}, {"total_steps", kWhole, false, "steps in total"},
        {"epoch", kNumber, false, "epochs done"}, {"epochs", kNumber, false, "epochs in total"},
        {"workers", kCount, false, "workers training now"}}, true, progress},
      {"view", Subject::kNothing, "The runtime changed the job's workers. The body is a line of the runtime's own log (docs/runtime.md); each line is recorded once.",
       {{"events_offset", kWhole, false, "where the line ends in that log"},
        {"node", kText, false, "of a job on several nodes: the node whose log it is, if that is not the first one"}}, true, view, nothing},
      {"paused", Subject::kJob, "The owner paused the job: it releases its devices and keeps its state.", {}, false, paused},
      {"resumed", Subject::kJob, "The owner resumed the job: it waits for devices again.", {}, false, resumed},
      {"scaled", Subject::kJob, "The owner pinned the job to this many devices. 0: the pin was removed; the policy decides again.",
       {{"devices", kCount, true, "how many"}}, false, scaled},
      {"changed", Subject::kJob, "The owner changed fields of the job.",
       {{"fields", kObject, true, "the new values of `name` and `priority`; only those that changed"}}, false, changed},
      {"restarted", Subject::kJob, "The job's processes had died and were restarted from its last checkpoint.", {}, true, restarted},
      {"stalled", Subject::kJob, "The job runs but has not completed a step for a long time ([live.md](live.md) has the rule).",
       {{"for_s", kNumber, true, "seconds since its last step"}, {"step", kWhole, true, "steps done"}}, false, stalled},
      {"recovered", Subject::kJob, "A stalled job makes progress again.", {{"step", kWhole, true, "steps done"}}, false, recovered},
      {"capped", Subject::kJob, "More devices than this made the job slower, or (`cause`: silent) its program has not called the runtime and uses one device. 0: the limit was lifted.",
       {{"max_useful", kCount, true, "largest number of devices that helps"}}, true, capped},
      {"program", Subject::kJob, "The program reported its number of logical workers, which the job document does not give. The job can use at most this many devices.",
       {{"logical_workers", kCount, true, "how many"}}, false, program},
      {"finished", Subject::kJob, "The job ended with a result.", {{"result", kObject, true, "the runtime's result.json"}}, false,
       [](State& s, const Event& e) { return end_job(s, e, Phase::kFinished); }},
      {"failed", Subject::kJob, "The job ended without a result.", {{"message", kText, true, "why"}}, false,
       [](State& s, const Event& e) { return end_job(s, e, Phase::kFailed); }},
      {"cancelled", Subject::kJob, "The owner cancelled the job, or a job that it waits for ended in another way than it should.",
       {{"message", kText, false, "why, if it was not the owner"}}, false,
       [](State& s, const Event& e) { return end_job(s, e, Phase::kCancelled); }},
      {"removed", Subject::kJob, "A job that had ended was removed by its owner, with its folder. Nothing refers to its number any more, and no other job gets it.",
       {{"phase", kText, true, "how it had ended"}, {"device_s", kNumber, true, "device-seconds that it held"}}, false, removed, removed_at_rest},
      {"learned", Subject::kProfile, "Step times of a program were measured.",
       {{"key", kText, true, "which program"}, {"profile", kObject, true, "seconds per step by number of devices"}}, false, learned},
      {"policy", Subject::kPolicy, "The daemon switched to another policy.",
       {{"name", kText, true, "name of the policy"}, {"settings", kTexts, true, "its parameters that differ from their defaults"}}, false, policy},
      {"supply", Subject::kPolicy, "Somebody who brings devices, such as `rubato pilots`, said what is known of those that are on their way; `why` tells it.",
       {{"text", kText, true, "in a few words; empty: there are none"}, {"until", kNumber, true, "seconds since 1970: then it does not hold any more"}}, false, supply},
      {"reserved", Subject::kReservation, "Devices were reserved for something other than training.",
       {{"number", kWhole, true, "number of the reservation"}, {"devices", kCount, true, "how many"},
        {"until", kNumber, true, "seconds since 1970"}}, false, reserved},
      {"released", Subject::kReservation, "A reservation ended; its devices are available to jobs again.",
       {{"number", kWhole, true, "number of the reservation"}}, false, released},
      {"tenant", Subject::kTenant, "A tenant was added or changed.",
       {{"name", kText, true, "name of the tenant"}, {"weight", kNumber, true, "share relative to other tenants"},
        {"quota", kCount, true, "maximum number of devices; 0: no limit"},
        {"token_sha256", kText, true, "SHA-256 of its token, in hexadecimal; empty: no token"},
        {"token_expires", kNumber, false, "when its token stops to be valid, in seconds since 1970; 0: never"},
        {"max_queued", kCount, false, "jobs that may wait at the same time; 0: no limit"},
        {"max_streams", kCount, false, "streams that it may keep open; 0: the server's limit"},
        {"user", kText, false, "unix user that runs its jobs; empty: none; missing: as before"}}, false, tenant},
      {"tenant_removed", Subject::kTenant, "A tenant was deleted; its token is no longer valid.",
       {{"name", kText, true, "name of the tenant"}}, false, tenant_removed},
      {"set_aside", Subject::kNothing, "At its start the daemon found a job folder that does not belong to any job of this log (a restored or emptied database), ended its processes and renamed it.",
       {{"folder", kText, true, "where it was"}, {"moved_to", kText, true, "where it is now"}, {"message", kText, true, "to whom it belongs"}}, false, nothing},
      {"renumbered", Subject::kNothing, "Numbers of jobs go on at `next_job`: those below were used in a history that is not in this log.",
       {{"next_job", kWhole, true, "number of the next job"}}, false, renumbered},
      {"node", Subject::kNode, "A machine joined with its agent, or described itself anew.",
       {{"name", kText, true, "of the node"}, {"device_type", kText, true, "of its devices"}, {"devices", kCount, true, "how many"},
        {"labels", kTexts, true, "of the node"}, {"token_sha256", kText, true, "SHA-256 of its agent's token, in hexadecimal"}}, false, node_joined},
      {"node_removed", Subject::kNode, "A node was removed by an administrator; the token of its agent is no longer valid.",
       {{"name", kText, true, "of the node"}}, false, node_removed},
      {"node_lost", Subject::kNode, "Nothing was heard of the node's agent for so long that its jobs continue elsewhere.",
       {{"name", kText, true, "of the node"}, {"silent_s", kNumber, true, "seconds since its agent was last heard"}}, false, node_lost},
      {"node_back", Subject::kNode, "The agent of a lost node was heard again. What ran there has been ended; it gets jobs again.",
       {{"name", kText, true, "of the node"}}, false, node_back},
      {"drained", Subject::kNode, "An administrator drained the node: its jobs are checkpointed and continue elsewhere, and it gets no others.",
       {{"name", kText, true, "of the node"}, {"deadline", kNumber, false, "in seconds since 1970: what still runs there then is killed"}}, false, node_drained},
      {"undrained", Subject::kNode, "The node gets jobs again.",
       {{"name", kText, true, "of the node"}}, false, node_undrained},
      {"tenant_user", Subject::kTenant, "The jobs of a tenant run as another unix user from now on.",
       {{"name", kText, true, "name of the tenant"}, {"user", kText, true, "the unix user; empty: none"}}, false, tenant_user},
  };
  // clang-format on
  return kTypes;
}

bool fits(const json& value, FieldKind kind) {
  switch (kind) {
    case FieldKind::kCount:
      return value.is_number_integer() && value >= 0 &&
             value <= std::numeric_limits<std::int32_t>::max();
    case FieldKind::kWhole:
      return value.is_number_integer() && value >= 0 &&
             value <= std::numeric_limits<std::int64_t>::max();
    case FieldKind::kNumber:
      return value.is_number() && std::isfinite(value.get<double>()) && value >= 0;
    case FieldKind::kText:
      return value.is_string();
    case FieldKind::kObject:
      return value.is_object();
    case FieldKind::kNodes:
      return placement_from_json(value).ok();
    case FieldKind::kTexts:
      return value.is_object() && std::all_of(value.begin(), value.end(),
                                              [](const json& each) { return each.is_string(); });
  }
  return false;
}

}  // namespace

std::string_view to_string(FieldKind kind) {
  switch (kind) {
    case FieldKind::kCount:
    case FieldKind::kWhole:
      return "whole number";
    case FieldKind::kNumber:
      return "number";
    case FieldKind::kText:
      return "string";
    case FieldKind::kObject:
      return "object";
    case FieldKind::kTexts:
      return "object of strings";
    case FieldKind::kNodes:
      return "list of `node`, `device_type`, `devices`";
  }
  return "?";
}

std::span<const EventType> event_types() { return table(); }

const EventType* find_event_type(std::string_view name) {
  const auto types = event_types();
  const auto found = std::find_if(types.begin(), types.end(),
                                  [&](const EventType& type) { return type.name == name; });
  return found == types.end() ? nullptr : &*found;
}

Status check_event(const EventType& type, const Event& event) {
  if (!std::isfinite(event.at) || event.at < 0) return refused(event, "its time is not a number");
  const bool job_only = type.subject == Subject::kJob || type.apply == &about_known_job;
  if (event.job < 0 || (job_only && event.job == 0)) return refused(event, "it names no job");
  if (job_only && event.tenant.empty()) return refused(event, "it names no tenant");
  if (!event.body.is_object()) return refused(event, "its body is not an object");
  for (const EventField& field : type.fields) {
    const auto found = event.body.find(field.name);
    if (found == event.body.end()) {
      if (!field.required) continue;
      return refused(event, fmt::format("`{}` is missing", field.name));
    }
    if (fits(*found, field.kind)) continue;
    return refused(event, fmt::format("{}: {}; expected {}", field.name, shown(*found),
                                      to_string(field.kind)));
  }
  if (type.more_fields) return ok_status();
  for (auto entry = event.body.begin(); entry != event.body.end(); ++entry) {
    const bool known =
        std::any_of(type.fields.begin(), type.fields.end(),
                    [&](const EventField& field) { return field.name == entry.key(); });
    if (!known) return refused(event, fmt::format("unknown field {}", shown(json(entry.key()))));
  }
  return ok_status();
}

std::string event_types_markdown() {
  std::string page = "| event | meaning | fields of `body` |\n|---|---|---|\n";
  for (const EventType& type : table()) {
    std::vector<std::string> fields;
    for (const EventField& field : type.fields) {
      fields.push_back(fmt::format("`{}` ({}{}): {}", field.name, to_string(field.kind),
                                   field.required ? "" : ", optional", field.help));
    }
    if (type.more_fields) fields.emplace_back(fields.empty() ? "any" : "others");
    page += fmt::format("| `{}` | {} | {} |\n", type.name, type.meaning, join(fields, "; "));
  }
  return page;
}

}  // namespace rubato::control
