// rubato rm: removes jobs of the daemon that have ended.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct RmArguments {
  std::vector<std::string> jobs;
  bool as_json = false;
};

// All that can be removed are; the exit code tells whether that were all.
int rm(const Context& context, const RmArguments& a) {
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  int code = 0;
  json removed = json::array();
  for (const std::string& name : a.jobs) {
    const Result<FoundJob> job = which_daemon_job(
        context, name,
        fmt::format("its folder can be deleted when it has ended: rubato ps {}", name));
    const Result<json> answer =
        job.ok() ? client->send("DELETE", "/jobs/" + url_quoted(job->id), nullptr)
                 : Result<json>(job.error());
    if (!answer.ok()) {
      code = fail(answer.error());
      continue;
    }
    if (!a.as_json) {
      fmt::print("{} {} removed ({})\n", answer->value("id", ""), answer->value("name", ""),
                 answer->value("phase", ""));
    }
    removed.push_back(*answer);
  }
  if (a.as_json) print_json({{"jobs", std::move(removed)}});
  return code;
}

}  // namespace

void add_rm(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<RmArguments>();
  CLI::App* sub = app.add_subcommand(
      "rm", "Remove jobs of the daemon that have ended, with their checkpoints, logs and history");
  sub->add_option("jobs", a->jobs, kJobHelp)->required();
  sub->add_flag("--json", a->as_json, "The removed jobs as JSON");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return rm(context, *a); }; });
}

}  // namespace rubato::cli
