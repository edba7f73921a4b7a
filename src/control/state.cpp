#include "control/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/located_json.h"
#include "base/text.h"
#include "control/event_types.h"
#include "control/job_fields.h"
#include "control/json_fields.h"

namespace rubato::control {

using nlohmann::json;

namespace {

constexpr std::array kPhases{Phase::kQueued,   Phase::kRunning, Phase::kPaused,
                             Phase::kFinished, Phase::kFailed,  Phase::kCancelled};

}  // namespace

json waits_json(const WaitsFor& waits_for) {
  json object = json::object();
  for (const auto& [job, when] : waits_for) object[job_name_of(job)] = to_string(when);
  return object;
}

WaitsFor waits_from(const json& object) {
  WaitsFor waits_for;
  if (!object.is_object()) return waits_for;
  for (const auto& [name, when] : object.items()) {
    const auto job = parse_job_number(name);
    const auto condition = when.is_string() ? parse_when(when.get<std::string>()) : std::nullopt;
    if (job && condition) waits_for[*job] = *condition;
  }
  return waits_for;
}

json array_json(const ArrayPlace& array) {
  if (array.first == 0) return nullptr;
  return {{"first", job_name_of(array.first)},
          {"name", array.name},
          {"index", array.index},
          {"size", array.size},
          {"at_once", array.at_once}};
}

ArrayPlace array_from(const json& object) {
  if (!object.is_object()) return {};
  return {.first = parse_job_number(text_of(object, "first")).value_or(0),
          .name = text_of(object, "name"),
          .index = static_cast<int>(whole_in(object, "index")),
          .size = static_cast<int>(whole_in(object, "size")),
          .at_once = static_cast<int>(whole_in(object, "at_once"))};
}

std::optional<JobNumber> parse_job_number(std::string_view text) {
  if (text.starts_with('j')) text.remove_prefix(1);
  const auto number = parse_int(text);
  return number && *number > 0 ? number : std::nullopt;
}

std::string job_name_of(JobNumber number) { return fmt::format("j{}", number); }

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kQueued:
      return "queued";
    case Phase::kRunning:
      return "running";
    case Phase::kPaused:
      return "paused";
    case Phase::kFinished:
      return "finished";
    case Phase::kFailed:
      return "failed";
    case Phase::kCancelled:
      return "cancelled";
  }
  return "?";
}

std::optional<Phase> parse_phase(std::string_view name) {
  for (const Phase phase : kPhases) {
    if (name == to_string(phase)) return phase;
  }
  return std::nullopt;
}

int logical_workers_of(const JobRecord& job) {
  if (job.document.mode == ElasticMode::kAdaptive) return 0;
  return job.document.logical_workers > 0 ? job.document.logical_workers : job.program_workers;
}

DeviceRange device_range(const JobRecord& job) {
  DeviceRange range{job.document.min_devices, job.document.max_devices};
  if (const int logical = logical_workers_of(job); logical > 0) {
    range.high = std::min(range.high, logical);
    range.low = std::min(range.low, range.high);
  }
  return range;
}

Status State::apply(const Event& event) {
  if (event.seq != last_seq + 1) {
    return invalid_input(fmt::format("event {}: expected event {}", event.seq, last_seq + 1));
  }
  const EventType* type = find_event_type(event.type);
  if (type == nullptr) {
    return invalid_input(fmt::format("unknown event type {}", shown(json(event.type))));
  }
  if (auto status = check_event(*type, event); !status) return status;
  const bool forgotten = event.job > 0 && event.job < folded_below && !jobs.contains(event.job);
  if (!forgotten || !type->apply_at_rest) {
    if (auto status = type->apply(*this, event); !status) return status;
  } else if (auto status = type->apply_at_rest(*this, event); !status) {
    return status;
  }
  last_seq = event.seq;
  return ok_status();
}

json to_json(const Event& event) {
  json object{{"seq", event.seq}, {"at", event.at}, {"type", event.type}, {"body", event.body}};
  if (event.job != 0) object["job"] = event.job;
  if (!event.tenant.empty()) object["tenant"] = event.tenant;
  if (!event.by.empty()) object["by"] = event.by;
  if (!event.from.empty()) object["from"] = event.from;
  return object;
}

double device_seconds(const JobRecord& job, double now) {
  return job.device_s + job.held * std::max(0.0, now - job.held_at);
}

double held_seconds(const JobRecord& job, double now, double clock) {
  if (job.held == 0) return job.held_s;
  const bool known = clock > 0 && job.held_clock > 0;
  return job.held_s + std::max(0.0, known ? clock - job.held_clock : now - job.held_at);
}

json to_json(const JobRecord& job) {
  json object = {{"number", job.number},
                 {"id", job_name_of(job.number)},
                 {"name", job_title(job.document)},
                 {"document", to_json(job.document)},
                 {"tenant", job.tenant},
                 {"key", job.key},
                 {"uid", job.uid},
                 {"phase", to_string(job.phase)},
                 {"submitted_at", job.submitted_at},
                 {"started_at", job.started_at},
                 {"ended_at", job.ended_at},
                 {"granted", job.granted},
                 {"nodes", placement_json(job.nodes)},
                 {"min_devices", device_range(job).low},
                 {"max_devices", device_range(job).high},
                 {"batch", job.batch},
                 {"held", job.held},
                 {"held_nodes", placement_json(job.held_nodes)},
                 {"reason", job.reason},
                 {"facts", job.facts},
                 {"message", job.message},
                 {"scale", job.scale},
                 {"max_useful", job.max_useful},
                 {"logical_workers", logical_workers_of(job)},
                 {"resizes", job.resizes},
                 {"restarts", job.restarts},
                 {"device_s", job.device_s},
                 {"held_at", job.held_at},
                 {"held_s", job.held_s},
                 {"stalled_since", job.stalled_since},
                 {"progress", job.progress},
                 {"result", job.result},
                 {"errors", job.errors},
                 {"labels", job.document.labels},
                 {"waits_for", waits_json(job.waits_for)},
                 {"array", array_json(job.array)}};
  if (job.held_clock > 0) object["held_clock"] = job.held_clock;
  return object;
}

namespace {

// Stores of early versions do not say where devices are.
Result<JobPlacement> stored_placement(const json& object, const char* field, int devices) {
  const auto found = object.find(field);
  return found == object.end() ? Result<JobPlacement>(unnamed_placement(devices))
                               : placement_from_json(*found);
}

}  // namespace

Result<JobRecord> job_from_json(const json& object) {
  try {
    JobRecord job;
    auto document = stored_document(object.at("document"));
    if (!document) return document.error();
    job.document = std::move(*document);
    const auto& phase = object.at("phase").get_ref<const std::string&>();
    const std::optional<Phase> known = parse_phase(phase);
    if (!known) return invalid_input(fmt::format("unknown phase {}", shown(json(phase))));
    job.phase = *known;
    object.at("number").get_to(job.number);
    object.at("tenant").get_to(job.tenant);
    object.at("key").get_to(job.key);
    job.uid = object.value("uid", "");  // younger than the first stores, like some below
    object.at("submitted_at").get_to(job.submitted_at);
    object.at("started_at").get_to(job.started_at);
    object.at("ended_at").get_to(job.ended_at);
    object.at("granted").get_to(job.granted);
    auto nodes = stored_placement(object, "nodes", job.granted);
    if (!nodes) return nodes.error();
    job.nodes = std::move(*nodes);
    object.at("batch").get_to(job.batch);
    object.at("held").get_to(job.held);
    auto held_nodes = stored_placement(object, "held_nodes", job.held);
    if (!held_nodes) return held_nodes.error();
    job.held_nodes = std::move(*held_nodes);
    object.at("reason").get_to(job.reason);
    object.at("message").get_to(job.message);
    object.at("scale").get_to(job.scale);
    object.at("max_useful").get_to(job.max_useful);
    if (job.document.logical_workers == 0) {
      job.program_workers = object.value("logical_workers", 0);
    }
    job.facts = object.value("facts", json::object());
    object.at("resizes").get_to(job.resizes);
    object.at("restarts").get_to(job.restarts);
    object.at("device_s").get_to(job.device_s);
    object.at("held_at").get_to(job.held_at);
    job.held_s = object.value("held_s", 0.0);
    job.held_clock = object.value("held_clock", 0.0);
    job.stalled_since = object.value("stalled_since", 0.0);  // younger than the first stores
    job.progress = object.at("progress");
    job.result = object.at("result");
    job.errors = object.value("errors", json::object());
    job.waits_for = waits_from(object.value("waits_for", json()));
    job.array = array_from(object.value("array", json()));
    return job;
  } catch (const json::exception& problem) {
    return invalid_input(problem.what());
  }
}

json to_json(const Tenant& tenant) {
  return {{"name", tenant.name},
          {"weight", tenant.weight},
          {"quota", tenant.quota},
          {"token_sha256", tenant.token_sha256},
          {"token_expires", tenant.token_expires},
          {"max_queued", tenant.max_queued},
          {"max_streams", tenant.max_streams},
          {"user", tenant.user}};
}

json to_json(const Reservation& reservation) {
  return {{"number", reservation.number},
          {"devices", reservation.devices},
          {"from", reservation.from},
          {"until", reservation.until}};
}

json to_json(const State& state) {
  json jobs = json::array();
  for (const auto& [number, job] : state.jobs) jobs.push_back(to_json(job));
  json tenants = json::array();
  for (const auto& [name, tenant] : state.tenants) tenants.push_back(to_json(tenant));
  json reservations = json::array();
  for (const auto& [number, each] : state.reservations) reservations.push_back(to_json(each));
  json nodes = json::array();
  for (const auto& [name, node] : state.nodes) nodes.push_back(to_json(node));
  json ended_jobs = json::object();
  for (const auto& [phase, count] : state.ended_jobs) {
    if (count > 0) ended_jobs[std::string(to_string(phase))] = count;
  }
  return {{"last_seq", state.last_seq},
          {"next_job", state.next_job},
          {"next_reservation", state.next_reservation},
          {"jobs", std::move(jobs)},
          {"ended_jobs", std::move(ended_jobs)},
          {"tenants", std::move(tenants)},
          {"reservations", std::move(reservations)},
          {"nodes", std::move(nodes)},
          {"policy", state.policy},
          {"policy_settings", state.policy_settings},
          {"supply", state.supply},
          {"supply_until", state.supply_until},
          {"profiles", state.profiles}};
}

}  // namespace rubato::control
