// rubato ps: lists the jobs of this machine with readable folders, or the workers of one job.
#include <fmt/format.h>

#include <memory>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "elastic/launch/launcher.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct PsArguments {
  std::string job;
  bool as_json = false;
};

json described(LocalJob& job, const std::string& id) {
  json description = describe(job);
  description["id"] = id.empty() ? json(nullptr) : json(id);
  return description;
}

int print_local_jobs(const Context& context, bool as_json) {
  json jobs = json::array();
  for (const auto& [name, folder] : elastic::registered_jobs()) {
    Result<LocalJob> job = open_job(folder);
    if (job.ok()) jobs.push_back(described(*job, ""));
  }
  if (context.daemon != nullptr) {
    for (const FoundJob& found : context.daemon->running_here()) {
      Result<LocalJob> job = open_job(found.folder);
      if (job.ok()) jobs.push_back(described(*job, found.id));
    }
  }
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"jobs", jobs}}));
    return 0;
  }
  fmt::print("{:<6} {:<24} {:<9} {:>7} {:>8} {:>7} {:>8}  {}\n", "ID", "NAME", "STATE", "WORKERS",
             "LOGICAL", "BATCH", "STEP", "DIR");
  for (const json& job : jobs) {
    fmt::print("{:<6} {:<24} {:<9} {:>7} {:>8} {:>7} {:>8}  {}\n",
               job["id"].is_null() ? "-" : job["id"].get<std::string>(), job.value("name", ""),
               job.value("state", ""), job["workers"].size(), job.value("logical_workers", 0),
               job.value("batch", std::int64_t{0}), job.value("step", std::int64_t{0}),
               job.value("dir", ""));
  }
  return 0;
}

void print_workers(const json& status, const LocalJob& job) {
  fmt::print("{} {} step {}: {}, batch {}{}, target {}\n", status.value("name", ""),
             status.value("state", ""), status.value("step", std::int64_t{0}),
             counted(status.value("logical_workers", 0), "logical worker"),
             status.value("batch", std::int64_t{0}),
             job.settings.adaptive ? " in " + to_string(job.settings.batch_range) : "",
             counted(status.value("target", 0), "worker"));
  fmt::print("{:>6} {:>8} {:>7} {:>10} {:>8}  {}\n", "WORKER", "PID", "LEADER", "STEP", "STEP-MS",
             "LOGICAL");
  for (const json& worker : status["workers"]) {
    const json& logical = worker["logical"];
    fmt::print("{:>6} {:>8} {:>7} {:>10} {:>8.1f}  {}-{}\n", worker["id"].get<int>(),
               worker["pid"].get<std::int64_t>(), worker["leader"].get<bool>() ? "yes" : "",
               worker["step"].get<std::int64_t>(), worker["step_ms"].get<double>(),
               logical.front().get<int>(), logical.back().get<int>());
  }
  for (const json& newcomer : status["newcomers"]) {
    fmt::print("{:>6} {:>8} {:>7} {:>10} {:>8}  {}\n", newcomer.value("id", -1),
               newcomer.value("pid", std::int64_t{0}), "", "", "", "newcomer");
  }
  if (const auto refused = status.value("refused_connections", std::int64_t{0}); refused > 0) {
    fmt::print("{} refused\n", counted(refused, "unauthenticated connection"));
  }
}

}  // namespace

int print_job(const FoundJob& found, bool as_json) {
  if (found.folder.empty()) {
    return fail(invalid_input(
        fmt::format("{} has no folder here: it has not started yet, or its daemon runs on another "
                    "machine; 'rubato status {}' asks the daemon",
                    found.shown(), found.shown())));
  }
  Result<LocalJob> job = open_job(found.folder);
  if (!job.ok()) return fail(job.error());
  const json status = described(*job, found.id);
  if (as_json) {
    fmt::print("{}\n", indented_json(status));
  } else {
    print_workers(status, *job);
  }
  return 0;
}

void add_ps(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<PsArguments>();
  CLI::App* sub = app.add_subcommand(
      "ps", "List jobs that run on this machine and those of 'rubato run', or the workers of one");
  sub->add_option("job", a->job, kJobHelp);
  sub->add_flag("--json", a->as_json, "As JSON");
  sub->callback([a, &context, &chosen] {
    chosen = [a, &context] {
      if (a->job.empty()) return print_local_jobs(context, a->as_json);
      const Result<FoundJob> job = which_job(context, a->job);
      return job.ok() ? print_job(*job, a->as_json) : fail(job.error());
    };
  });
}

}  // namespace rubato::cli
