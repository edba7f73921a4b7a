// rubato pause, resume, cancel, set, and scale for a job of the daemon.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "commands.h"
#include "control/job_document.h"
#include "daemon_jobs.h"
#include "output.h"
#include "select_jobs.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct ChangeArguments {
  std::string job;
  Selection selection;
  bool all_matching = false;
  std::vector<std::string> settings;
  bool as_json = false;
};

std::vector<std::string> changeable() {
  return {control::kChangeableFields.begin(), control::kChangeableFields.end()};
}

// Sends a request to /jobs/ID followed by `what` and prints the changed job.
int change(const ServerChoice& server, const FoundJob& job, const char* method,
           const std::string& what, const json& body, bool as_json) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> after = client->send(method, "/jobs/" + url_quoted(job.id) + what, body);
  if (!after.ok()) return fail(after.error());
  const std::string id = after->value("id", "");
  if (as_json) {
    print_json(*after);
  } else {
    fmt::print("{} {} {} {}\n", id, after->value("name", ""), after->value("phase", ""),
               devices_text(*after));
  }
  if (after->value("phase", "") == "paused") {
    print_next({"rubato resume " + id, "rubato cancel " + id});
  } else if (after->value("phase", "") == "cancelled") {
    print_next({"rubato logs " + id, "rubato queue"});
  } else {
    print_next({"rubato status " + id, "rubato events -f " + id});
  }
  return 0;
}

// Turns FIELD=VALUE arguments into fields of a document. The daemon checks the values.
Result<json> fields_of(const std::vector<std::string>& settings) {
  const json schema = control::job_schema()["properties"];
  json fields = json::object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_input(fmt::format("set: '{}': expected FIELD=VALUE, where FIELD is one of {}",
                                       setting, join(changeable(), ", ")));
    }
    const std::string name = setting.substr(0, equals);
    const std::string value = setting.substr(equals + 1);
    if (!std::count(control::kChangeableFields.begin(), control::kChangeableFields.end(), name)) {
      return invalid_input(fmt::format(
          "set: '{}' cannot be changed{}; these can: {} (the number of devices: 'rubato scale')",
          name, did_you_mean(name, changeable()), join(changeable(), ", ")));
    }
    const auto number = parse_int(value);
    fields[name] =
        number && schema[name].value("type", "") == "integer" ? json(*number) : json(value);
  }
  return fields;
}

int set(const Context& context, const ChangeArguments& a) {
  const Result<json> fields = fields_of(a.settings);
  if (!fields.ok()) return fail(fields.error());
  const Result<FoundJob> job = which_daemon_job(context, a.job);
  if (!job.ok()) return fail(job.error());
  return change(context.server, *job, "PATCH", "", *fields, a.as_json);
}

int change_phase(const Context& context, const ChangeArguments& a, const char* what) {
  const Result<FoundJob> job = which_daemon_job(
      context, a.job, fmt::format("'rubato stop {}' checkpoints and ends it", a.job));
  if (!job.ok()) return fail(job.error());
  return change(context.server, *job, "POST", fmt::format("/{}", what), nullptr, a.as_json);
}

int say_cancelled(const Result<json>& answer, bool as_json) {
  if (!answer.ok()) return fail(answer.error());
  const json jobs = answer->value("jobs", json::array());
  if (as_json) {
    print_json(*answer);
  } else {
    fmt::print("{} cancelled\n", counted(static_cast<std::int64_t>(jobs.size()), "job"));
  }
  return 0;
}

// Cancels the jobs that the options select, or shows them if nobody said that all are meant.
int cancel_selected(const Context& context, const ChangeArguments& a) {
  const Result<json> body = selection_body(a.selection);
  const Result<std::string> query = selection_query(a.selection);
  if (!body.ok()) return fail(body.error());
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  if (a.all_matching) return say_cancelled(client->send("POST", "/cancel", *body), a.as_json);
  const Result<json> jobs = client->all_jobs(true, *query);
  if (!jobs.ok()) return fail(jobs.error());
  if (a.as_json) {
    print_json({{"jobs", *jobs}});
  } else if (!jobs->empty()) {
    fmt::print("{}", job_table(collapse_arrays(*jobs), unix_now()).text());
  }
  fmt::print(stderr, "{}\n",
             jobs->empty() ? "no active job is like that"
                           : fmt::format("nothing is cancelled yet; to cancel {}: the same command "
                                         "with --all-matching",
                                         counted(static_cast<std::int64_t>(jobs->size()), "job")));
  return jobs->empty() ? 1 : 2;
}

int cancel(const Context& context, const ChangeArguments& a) {
  if (a.job.empty() == !a.selection.given()) {
    return fail(
        invalid_input("cancel: expected a job, or options that select jobs (--label, "
                      "--name, ...)"));
  }
  if (a.job.empty()) return cancel_selected(context, a);
  const Result<NamedJobs> named =
      named_jobs(context, a.job, fmt::format("'rubato stop {}' checkpoints and ends it", a.job));
  if (!named.ok()) return fail(named.error());
  if (named->array.empty()) return change_phase(context, a, "cancel");
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  return say_cancelled(client->send("POST", "/cancel", {{"array", named->array}}), a.as_json);
}

}  // namespace

int scale_daemon_job(const ServerChoice& server, const FoundJob& job, int devices, bool as_json) {
  return change(server, job, "POST", "/scale", {{"devices", devices}}, as_json);
}

void add_change_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<ChangeArguments>();
  const auto add = [&](const char* name, const char* help,
                       std::function<int(const ChangeArguments&)> run) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("job", a->job, kJobHelp)->required();
    sub->add_flag("--json", a->as_json, "The job as JSON");
    sub->callback([a, run = std::move(run), &chosen] { chosen = [a, run] { return run(*a); }; });
    return sub;
  };
  const std::pair<const char*, const char*> phases[] = {
      {"pause", "Checkpoint a job of the daemon and release its devices"},
      {"resume", "Resume a paused job"}};
  for (const auto& [name, help] : phases) {
    add(name, help, [&context, what = name](const ChangeArguments& arguments) {
      return change_phase(context, arguments, what);
    });
  }
  CLI::App* cancelling =
      add("cancel", "End a job of the daemon, an array, or all jobs like this, without a result",
          [&context](const ChangeArguments& arguments) { return cancel(context, arguments); });
  cancelling->get_option("job")->required(false);
  add_selection_options(*cancelling, a->selection);
  cancelling->add_flag("--all-matching", a->all_matching,
                       "Cancel all jobs that the options select; without it they are shown");
  add("set", "Change the name or the priority of a job of the daemon that has not ended",
      [&context](const ChangeArguments& arguments) { return set(context, arguments); })
      ->add_option("settings", a->settings, "FIELD=VALUE, such as priority=10")
      ->required();
}

}  // namespace rubato::cli
