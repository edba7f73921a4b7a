#include "select_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "base/text.h"
#include "commands.h"
#include "control/job_document.h"
#include "control/labels.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

const std::vector<std::string> kStates{"queued",   "running", "paused",
                                       "finished", "failed",  "cancelled"};

// "2026-11-01", "2026-11-01 12:30" (local time), or "30d": that long ago. Seconds since 1970.
Result<double> moment(const char* option, const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"}) {
    std::tm parts{};
    const char* end = strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    const std::time_t time = std::mktime(&parts);
    if (time >= 0) return static_cast<double>(time);
  }
  const Result<double> ago = control::parse_duration(text);
  if (ago.ok()) return std::max(0.0, unix_now() - *ago);
  return invalid_input(
      fmt::format("{}: '{}' is not a time; expected 2026-11-01, '2026-11-01 12:30', or 30d for 30 "
                  "days ago",
                  option, text));
}

std::string state_counts(const std::map<std::string, int>& states, int size) {
  std::vector<std::string> parts;
  int seen = 0;
  for (const std::string& state : kStates) {
    const auto found = states.find(state);
    if (found == states.end()) continue;
    seen += found->second;
    parts.push_back(fmt::format("{} {}", found->second, state));
  }
  return join(parts, ", ") + (seen < size ? fmt::format(", of {}", size) : "");
}

// One row for these jobs of an array.
json row_of(const std::vector<const json*>& members) {
  json row = *members.front();
  const json& array = row.at("array");
  std::map<std::string, int> states;
  int granted = 0;
  int held = 0;
  double ended = 0;
  bool all_over = true;
  for (const json* job : members) {
    ++states[job->value("phase", "")];
    granted += job->value("granted", 0);
    held += job->value("held", 0);
    ended = std::max(ended, job->value("ended_at", 0.0));
    all_over = all_over && job->value("ended_at", 0.0) > 0;
  }
  constexpr std::array kShownFirst{"running", "queued", "paused", "failed", "cancelled"};
  std::string phase = "finished";
  for (const char* state : kShownFirst) {
    if (!states.contains(state)) continue;
    phase = state;
    break;
  }
  row["id"] = array.value("first", "") + "[]";
  row["name"] = fmt::format("{}[{}]", array.value("name", ""), array.value("size", 0));
  row["phase"] = phase;
  row["granted"] = granted;
  row["held"] = held;
  row["ended_at"] = all_over ? ended : 0.0;
  row["progress"] = json::object();
  row["stalled_since"] = 0.0;
  row["reason"] = state_counts(states, array.value("size", 0));
  return row;
}

}  // namespace

bool Selection::given() const {
  return !labels.empty() || !name.empty() || !phases.empty() || !tenant.empty() || !user.empty() ||
         !since.empty() || !before.empty();
}

bool Selection::includes_ended() const {
  return std::any_of(phases.begin(), phases.end(), [](const std::string& phase) {
    return phase == "finished" || phase == "failed" || phase == "cancelled";
  });
}

void add_selection_options(CLI::App& sub, Selection& selection) {
  sub.add_option("--label", selection.labels, "Only jobs with this label: NAME=VALUE (repeatable)")
      ->allow_extra_args(false);
  sub.add_option("--name", selection.name,
                 "Only jobs with such a name; '*' stands for anything, '?' for one character");
  sub.add_option("--phase", selection.phases, "Only jobs in one of these states")
      ->delimiter(',')
      ->check(one_of(kStates));
  sub.add_option("--tenant", selection.tenant, "Only jobs of this tenant");
  sub.add_option("--user", selection.user, "Only jobs that this unix user runs");
  sub.add_option("--since", selection.since,
                 "Only jobs submitted since this time: 2026-11-01, '2026-11-01 12:30', or 2h for "
                 "the last two hours");
  sub.add_option("--before", selection.before,
                 "Only jobs submitted before this time: 2026-11-01, '2026-11-01 12:30', or 30d for "
                 "30 days ago");
}

Result<json> selection_body(const Selection& selection) {
  json body = json::object();
  for (const std::string& text : selection.labels) {
    const auto label = control::parse_label(text);
    if (!label) return invalid_input("--label " + label.error().message);
    body["labels"][label->first] = label->second;
  }
  if (!selection.name.empty()) body["name"] = selection.name;
  if (!selection.phases.empty()) body["phases"] = selection.phases;
  if (!selection.tenant.empty()) body["tenant"] = selection.tenant;
  if (!selection.user.empty()) body["user"] = selection.user;
  if (!selection.since.empty()) {
    const auto since = moment("--since", selection.since);
    if (!since) return since.error();
    body["since"] = static_cast<std::int64_t>(std::floor(*since));
  }
  if (!selection.before.empty()) {
    const auto before = moment("--before", selection.before);
    if (!before) return before.error();
    body["submitted_before"] = static_cast<std::int64_t>(std::ceil(*before));
  }
  return body;
}

Result<std::string> selection_query(const Selection& selection) {
  const Result<json> body = selection_body(selection);
  if (!body.ok()) return body.error();
  std::string query;
  for (const auto& [name, value] : body->items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (name == "labels") text = control::labels_text(value.get<control::Labels>());
    if (name == "phases") text = join(selection.phases, ",");
    query += fmt::format("&{}={}", name, url_quoted(text));
  }
  return query;
}

Result<NamedJobs> named_jobs(const Context& context, const std::string& text,
                             const std::string& instead) {
  const Result<FoundJob> one = which_daemon_job(context, text, instead);
  if (!one.ok() && one.error().code != ErrorCode::kRefused) return one.error();
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return client.error();
  const Result<json> list =
      client->all_jobs(false, "&job=" + url_quoted(one.ok() ? one->id : text));
  // What is refused under that name is not always an array.
  if (!list.ok()) return one.ok() ? list.error() : one.error();
  NamedJobs named{.jobs = list->get<std::vector<json>>()};
  if (!one.ok() && !named.jobs.empty() && named.jobs.front().value("array", json()).is_object()) {
    named.array = named.jobs.front()["array"].value("first", "") + "[]";
  }
  return named;
}

json collapse_arrays(const json& jobs) {
  std::map<std::string, std::vector<const json*>> arrays;
  const auto array_of = [](const json& job) {
    const auto array = job.find("array");
    return array != job.end() && array->is_object() ? array->value("first", "") : std::string();
  };
  for (const json& job : jobs) {
    if (const std::string array = array_of(job); !array.empty()) arrays[array].push_back(&job);
  }
  json rows = json::array();
  std::map<std::string, bool> shown;
  for (const json& job : jobs) {
    const std::string array = array_of(job);
    if (array.empty() || arrays[array].size() == 1) {
      rows.push_back(job);
    } else if (!std::exchange(shown[array], true)) {
      rows.push_back(row_of(arrays[array]));
    }
  }
  return rows;
}

}  // namespace rubato::cli
