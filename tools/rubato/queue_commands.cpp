// rubato queue, status, why.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "control/job_document.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct QueueArguments {
  std::string job;
  bool all = false;
  bool as_json = false;
  std::vector<std::string> phases;
  std::string tenant;
  std::string since;
  std::string before;
  std::int64_t limit = 0;  // 0: none
  bool newest_first = false;
};

// "2026-11-01", "2026-11-01 12:30" (local time), or "30d": that long ago. Seconds since 1970.
Result<double> parse_time(const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"}) {
    std::tm parts{};
    const char* end = strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    const std::time_t time = std::mktime(&parts);
    if (time >= 0) return static_cast<double>(time);
  }
  const Result<double> ago = control::parse_duration(text);
  if (ago.ok()) return unix_now() - *ago;
  return invalid_input(fmt::format(
      "'{}' is not a time; expected 2026-11-01, '2026-11-01 12:30', or 30d for 30 days ago", text));
}

bool is_wanted(const QueueArguments& a, const json& job) {
  const std::string phase = job.value("phase", "");
  if (!a.phases.empty() && std::find(a.phases.begin(), a.phases.end(), phase) == a.phases.end()) {
    return false;
  }
  return a.tenant.empty() || job.value("tenant", "") == a.tenant;
}

// The jobs that the options ask for, in their order. The daemon is asked for the newest ones first,
// a page at a time, until there are enough: it may have millions.
Result<json> selected(const QueueArguments& a, Client& client, bool active) {
  double since = 0;
  if (!a.since.empty()) {
    const Result<double> seconds = control::parse_duration(a.since);
    if (!seconds.ok()) return invalid_input("--since: " + seconds.error().message);
    since = unix_now() - *seconds;
  }
  double before = 0;
  if (!a.before.empty()) {
    const Result<double> time = parse_time(a.before);
    if (!time.ok()) return invalid_input("--before: " + time.error().message);
    before = *time;
  }
  constexpr std::int64_t kPage = 10'000;
  const bool filtered = !a.phases.empty() || !a.tenant.empty();
  const std::int64_t page_size = a.limit > 0 && !filtered ? std::min(a.limit, kPage) : kPage;
  std::vector<json> kept;
  json next = 0;
  while (!next.is_null()) {
    Result<json> page = client.get(
        fmt::format("/jobs?newest_first=true&limit={}&active={}&before={}&submitted_before={:.0f}",
                    page_size, active, compact_json(next), before));
    if (!page.ok()) return page;
    next = page->value("next", json());
    for (json& job : (*page)["jobs"]) {
      const bool enough = a.limit > 0 && std::ssize(kept) >= a.limit;
      if (enough || job.value("submitted_at", 0.0) < since) {
        next = nullptr;
        break;
      }
      if (is_wanted(a, job)) kept.push_back(std::move(job));
    }
  }
  if (!a.newest_first) std::reverse(kept.begin(), kept.end());
  return json(std::move(kept));
}

int queue(const QueueArguments& a, const Context& context) {
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  // To ask for jobs that have ended is to ask for all.
  const bool all = a.all || std::any_of(a.phases.begin(), a.phases.end(), [](const auto& phase) {
                     return phase == "finished" || phase == "failed" || phase == "cancelled";
                   });
  const Result<json> jobs = selected(a, *client, !all);
  if (!jobs.ok()) return fail(jobs.error());
  if (a.as_json) {
    print_json({{"jobs", *jobs}});
  } else if (jobs->empty()) {
    const bool filtered =
        !a.phases.empty() || !a.tenant.empty() || !a.since.empty() || !a.before.empty();
    fmt::print(
        stderr, "{}\n",
        filtered ? "no job is like that; next: rubato queue --all"
                 : fmt::format("no {}jobs; next: rubato submit -f job.yaml", all ? "" : "active "));
  } else {
    fmt::print("{}", job_table(*jobs, unix_now()).text());
  }
  return 0;
}

void print_line(const char* name, const std::string& value) {
  if (!value.empty() && value != "-") fmt::print("{:<12} {}\n", name, value);
}

std::string progress_text(const json& job) {
  // The last progress report comes some steps before the end.
  if (const json result = job.value("result", json::object()); result.contains("steps")) {
    return fmt::format("all {} steps, last loss {:.4g}", compact_json(result["steps"]),
                       result.value("final_loss", 0.0));
  }
  const json p = job.value("progress", json::object());
  std::string text;
  if (p.contains("step")) {
    text = fmt::format("step {}", compact_json(p["step"]));
    if (p.value("total_steps", std::int64_t{0}) > 0) {
      text += fmt::format(" of {}", compact_json(p["total_steps"]));
    }
  }
  if (p.contains("loss") && p["loss"].is_number()) {
    text += fmt::format("{}loss {:.4g}", text.empty() ? "" : ", ", p["loss"].get<double>());
  }
  if (p.contains("step_s") && p["step_s"].is_number()) {
    text += fmt::format(", {:.1f} ms per step", 1000 * p["step_s"].get<double>());
  }
  return text;
}

// The hash of what was trained, or how an ordinary program ended.
std::string result_text(const json& result) {
  if (!result.contains("exit_code")) return result.value("state_sha256", "");
  return fmt::format(
      "exit code {} after {}, {}", result.value("exit_code", 0),
      result.value("tries", 1) == 1 ? "1 try" : fmt::format("{} tries", result.value("tries", 1)),
      duration_text(result.value("run_s", 0.0)));
}

// The estimate and its assumptions.
std::string eta_line(const json& job) {
  const std::string eta = eta_text(job);
  const json p = job.value("progress", json::object());
  const int devices = p.value("eta_devices", 0);
  if (eta == "-" || devices == 0) return eta;
  const char* plural = devices == 1 ? "" : "s";
  if (!p.contains("start_in_s")) {
    return fmt::format("{}, if it keeps {} device{}", eta, devices, plural);
  }
  return fmt::format("{}, if other jobs keep their devices and it starts in {} on {} device{}", eta,
                     duration_text(p.value("start_in_s", 0.0)), devices, plural);
}

void print_stall(const json& job) {
  const std::string text = stall_text(job, unix_now());
  if (text.empty()) return;
  const std::string id = job.value("id", "");
  print_line("health",
             fmt::format("{}, since {}", text, time_text(job.value("stalled_since", 0.0))));
  print_line("remedy", fmt::format("rubato logs {0}; to start it again from its last checkpoint: "
                                   "rubato pause {0}, then rubato resume {0}",
                                   id));
}

int status(const QueueArguments& a, const Context& context) {
  const Result<FoundJob> found = which_job(context, a.job);
  if (!found.ok()) return fail(found.error());
  if (!found->of_daemon()) return print_job(*found, a.as_json);
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  const Result<json> job = client->get("/jobs/" + url_quoted(found->id));
  if (!job.ok()) return fail(job.error());
  if (a.as_json) {
    print_json(*job);
    return 0;
  }
  const auto at = [&](const char* name) {
    const double time = job->value(name, 0.0);
    return time > 0 ? time_text(time) : std::string();
  };
  const json document = job->value("document", json::object());
  const int held = job->value("held", 0);
  std::string devices = fmt::format("{} (now/min-max)", devices_text(*job));
  if (const int pinned = job->value("scale", 0); pinned > 0) {
    devices += fmt::format(", pinned to {}; 'rubato scale {} 0' removes the pin", pinned,
                           job->value("id", ""));
  }
  if (held != job->value("granted", 0)) devices += fmt::format(", holds {}", held);
  print_line("job", fmt::format("{} {}", job->value("id", ""), job->value("name", "")));
  print_line("state", job->value("phase", ""));
  print_stall(*job);
  print_line("message", job->value("message", ""));
  for (const auto& [kind, error] : job->value("errors", json::object()).items()) {
    print_line("error",
               fmt::format("{}: {}", error.value("place", ""), error.value("message", "")));
  }
  print_line("tenant", job->value("tenant", ""));
  const json result = job->value("result", json::object());
  print_line("mode", document.value("mode", result.value("mode", "consistent")));
  print_line("devices", devices);
  print_line("reason", job->value("reason", ""));
  print_line("progress", progress_text(*job));
  print_line("eta", eta_line(*job));
  print_line("submitted", at("submitted_at"));
  print_line("started", at("started_at"));
  print_line("ended", at("ended_at"));
  print_line("resizes", std::to_string(job->value("resizes", 0)));
  if (job->value("restarts", 0) > 0) {
    print_line("restarts", std::to_string(job->value("restarts", 0)));
  }
  print_line("device time", duration_text(job->value("device_s", 0.0)));
  if (const double limit = document.value("time_limit", 0.0); limit > 0) {
    print_line("time limit", fmt::format("{} of {}", duration_text(job->value("held_s", 0.0)),
                                         duration_text(limit)));
  }
  print_line("result", result_text(result));
  print_line("hint", result.value("hint", ""));
  return 0;
}

int why(const QueueArguments& a, const Context& context) {
  const Result<FoundJob> found =
      which_daemon_job(context, a.job, "it has the workers that its owner asked for");
  if (!found.ok()) return fail(found.error());
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  const Result<json> answer = client->get("/jobs/" + url_quoted(found->id) + "/why");
  if (!answer.ok()) return fail(answer.error());
  if (a.as_json) {
    print_json(*answer);
    return 0;
  }
  fmt::print("{} {}: {}\n", answer->value("job", a.job), answer->value("code", ""),
             answer->value("text", ""));
  for (const json& blocker : answer->value("blockers", json::array())) {
    std::string who = blocker.value("job", "");
    if (blocker.contains("name")) who += " " + blocker.value("name", "");
    if (blocker.contains("tenant")) who = "other tenants";
    if (blocker.contains("reservation"))
      who = "reservation " + compact_json(blocker["reservation"]);
    fmt::print("  {} {} {}\n", who, blocker.contains("tenant") ? "hold" : "holds",
               counted(blocker.value("devices", 0), "device"));
  }
  if (const std::string remedy = answer->value("remedy", ""); !remedy.empty()) {
    fmt::print("remedy: {}\n", remedy);
  }
  return 0;
}

}  // namespace

void add_queue_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<QueueArguments>();
  const auto add = [&](const char* name, const char* help,
                       int (*run)(const QueueArguments&, const Context&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_flag("--json", a->as_json, "As JSON");
    sub->callback(
        [a, run, &context, &chosen] { chosen = [a, run, &context] { return run(*a, context); }; });
    return sub;
  };
  CLI::App* listing = add("queue", "List the daemon's jobs", queue);
  listing->add_flag("--all", a->all, "Also jobs that have ended");
  listing->add_option("--phase", a->phases, "Only jobs in one of these states")
      ->delimiter(',')
      ->check(one_of({"queued", "running", "paused", "finished", "failed", "cancelled"}));
  listing->add_option("--tenant", a->tenant, "Only jobs of this tenant");
  listing->add_option("--since", a->since, "Only jobs submitted in the last 90s, 15m, 2h, 1d");
  listing->add_option("--before", a->before,
                      "Only jobs submitted before this time: 2026-11-01, '2026-11-01 12:30', or "
                      "30d for 30 days ago");
  listing->add_option("--limit", a->limit, "Only the newest ones, at most this many")
      ->check(between(1, 10'000'000));
  listing->add_flag("--newest-first", a->newest_first, "The newest job first");
  add("status", "Show everything about a job", status)
      ->add_option("job", a->job, kJobHelp)
      ->required();
  add("why", "Explain why a job has the devices it has, or none, and what would help", why)
      ->add_option("job", a->job, kJobHelp)
      ->required();
}

}  // namespace rubato::cli
