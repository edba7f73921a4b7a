// rubato pause, resume, cancel, and scale for a job of the daemon.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct ChangeArguments {
  std::string job;
  bool as_json = false;
};

// Posts to /jobs/JOB/WHAT and prints the changed job.
int change(const ServerChoice& server, const std::string& job, const char* what, const json& body,
           bool as_json) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> after =
      client->send("POST", fmt::format("/jobs/{}/{}", url_quoted(job), what), body);
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

}  // namespace

int scale_daemon_job(const ServerChoice& server, const std::string& job, int devices,
                     bool as_json) {
  return change(server, job, "scale", {{"devices", devices}}, as_json);
}

void add_change_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<ChangeArguments>();
  const auto add = [&](const char* name, const char* help) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("job", a->job, "Number (12 or j12) or name")->required();
    sub->add_flag("--json", a->as_json, "The job as JSON");
    sub->callback([a, name, &context, &chosen] {
      chosen = [a, name, &context] {
        return change(context.server, a->job, name, nullptr, a->as_json);
      };
    });
  };
  add("pause", "Checkpoint a job of the daemon and release its devices");
  add("resume", "Resume a paused job");
  add("cancel", "End a job of the daemon without a result");
}

}  // namespace rubato::cli
