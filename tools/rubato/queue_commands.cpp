// rubato queue, status, why.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "control/labels.h"
#include "output.h"
#include "select_jobs.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct QueueArguments {
  std::string job;
  bool all = false;
  bool as_json = false;
  Selection selection;
  std::int64_t limit = 0;  // 0: none
  bool expand = false;
  bool newest_first = false;
};

// The jobs that the options ask for, in their order. The daemon is asked for the newest ones first,
// a page at a time, until there are enough: it may have millions.
Result<json> selected(const QueueArguments& a, Client& client, bool active,
                      const std::string& query) {
  constexpr std::int64_t kPage = 10'000;
  std::vector<json> kept;
  json next = 0;
  while (!next.is_null() && (a.limit == 0 || std::ssize(kept) < a.limit)) {
    const std::int64_t most = a.limit > 0 ? std::min(a.limit - std::ssize(kept), kPage) : kPage;
    Result<json> page =
        client.get(fmt::format("/jobs?newest_first=true&limit={}&active={}&before={}{}", most,
                               active, compact_json(next), query));
    if (!page.ok()) return page;
    next = page->value("next", json());
    for (json& job : (*page)["jobs"]) kept.push_back(std::move(job));
  }
  if (!a.newest_first) std::reverse(kept.begin(), kept.end());
  return json(std::move(kept));
}

int queue(const QueueArguments& a, const Context& context) {
  const Result<std::string> query = selection_query(a.selection);
  if (!query.ok()) return fail(query.error());
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  const bool all = a.all || a.selection.includes_ended();
  const Result<json> jobs = selected(a, *client, !all, *query);
  if (!jobs.ok()) return fail(jobs.error());
  if (a.as_json) {
    print_json({{"jobs", *jobs}});
  } else if (jobs->empty()) {
    fmt::print(stderr, "{}\n",
               a.selection.given() ? "no job is like that; next: rubato queue --all"
                                   : fmt::format("no {}jobs; next: rubato submit -f job.yaml",
                                                 all ? "" : "active "));
  } else {
    fmt::print("{}", job_table(a.expand ? *jobs : collapse_arrays(*jobs), unix_now()).text());
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

// The newest value of each metric that its program reported.
std::string metrics_text(const json& job) {
  const json progress = job.value("progress", json::object());
  const json metrics = progress.value("metrics", json::object());
  std::vector<std::string> parts;
  for (const auto& [name, value] : metrics.items()) {
    parts.push_back(value.is_number() ? fmt::format("{} {:.6g}", name, value.get<double>())
                                      : fmt::format("{} {}", name, value.get<std::string>()));
  }
  return join(parts, ", ");
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
  std::string eta = eta_text(job);
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

// What connects it with other jobs.
void print_links(const json& job) {
  std::vector<std::string> waits;
  const json waits_for = job.value("waits_for", json::object());
  for (const auto& [id, when] : waits_for.items()) {
    waits.push_back(fmt::format("{} ({})", id, when.get<std::string>()));
  }
  print_line("waits for", join(waits, ", "));
  if (const json array = job.value("array", json()); array.is_object()) {
    const int at_once = array.value("at_once", 0);
    print_line("array", fmt::format("index {} of {}[], {} jobs{}", array.value("index", 0),
                                    array.value("first", ""), array.value("size", 0),
                                    at_once > 0 ? fmt::format(", {} at a time", at_once) : ""));
  }
  print_line("labels", control::labels_text(job.value("labels", control::Labels())));
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
  const json errors = job->value("errors", json::object());
  for (const auto& [kind, error] : errors.items()) {
    print_line("error",
               fmt::format("{}: {}", error.value("place", ""), error.value("message", "")));
  }
  print_line("tenant", job->value("tenant", ""));
  const json result = job->value("result", json::object());
  print_line("mode", document.value("mode", result.value("mode", "consistent")));
  print_line("devices", devices);
  print_line("nodes", nodes_text(job->value("nodes", json::array())));
  print_line("reason", job->value("reason", ""));
  print_links(*job);
  print_line("progress", progress_text(*job));
  print_line("metrics", metrics_text(*job));
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
    if (blocker.contains("phase")) {
      fmt::print("  {} is {}\n", who, blocker.value("phase", ""));
      continue;
    }
    fmt::print("  {} {} {}\n", who, blocker.contains("tenant") ? "hold" : "holds",
               counted(blocker.value("devices", 0), "device"));
  }
  if (const std::string remedy = answer->value("remedy", ""); !remedy.empty()) {
    fmt::print("remedy: {}\n", remedy);
  }
  // Earlier daemons do not look ahead.
  const Result<json> outlook = client->get("/jobs/" + url_quoted(found->id) + "/outlook");
  if (outlook.ok() && (!outlook->value("change", json()).is_null() ||
                       !outlook->value("earliest_s", json()).is_null() ||
                       !outlook->value("end_in_s", json()).is_null())) {
    fmt::print("next: {}\n", outlook->value("text", ""));
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
  listing->add_flag("--expand", a->expand, "Every job of an array in a row of its own");
  add_selection_options(*listing, a->selection);
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
