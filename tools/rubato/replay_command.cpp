// rubato replay: repeats a finished adaptive job in one process and compares the bits.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "commands.h"
#include "elastic/job/job_folder.h"
#include "elastic/launch/launcher.h"
#include "elastic/worker/worker.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

Result<json> read_json(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  json value = parse_json(*text);
  if (!value.is_object()) return invalid_input(path + ": not a JSON object");
  return value;
}

// Runs the job's program. If it exits with 0, its result is in the folder.
// A daemon's job has a document, which holds the program's working directory and environment.
Status run_program(const elastic::JobFolder& folder, const elastic::JobSettings& settings,
                   const json& document) {
  std::vector<std::string> command = settings.command;
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& part : command) arguments.push_back(part.data());
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return Error{ErrorCode::kIo, fmt::format("cannot start: {}", std::strerror(errno))};
  if (pid == 0) {
    const std::string directory = document.value("dir", "");
    if (!directory.empty() && chdir(directory.c_str()) != 0) {
      fmt::print(stderr, "rubato: {}: {}\n", directory, std::strerror(errno));
      _exit(127);
    }
    const json env = document.value("env", json::object());
    for (const auto& [variable, value] : env.items()) {
      setenv(variable.c_str(), value.get<std::string>().c_str(), 1);
    }
    setenv(elastic::kReplayVariable, folder.path().c_str(), 1);
    setenv("RUBATO_CONSISTENCY", settings.consistency.c_str(), 1);
    execvp(arguments[0], arguments.data());
    fmt::print(stderr, "rubato: cannot start {}: {}\n", arguments[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok_status();
  return invalid_input("replay: the program failed; see its output above");
}

int replay(const Context& context, const std::string& name) {
  const Result<FoundJob> job = which_job(context, name);
  if (!job.ok()) return fail(job.error());
  if (job->folder.empty()) {
    return fail(invalid_input(fmt::format(
        "{} has no folder on this machine; replay it where its daemon runs", job->shown())));
  }
  const elastic::JobFolder folder(job->folder);
  Result<elastic::JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return fail(settings.error());
  if (!settings->adaptive) {
    return fail(invalid_input(fmt::format(
        "job {} is consistent: its result does not depend on its schedule, so run it again instead",
        settings->name)));
  }
  if (!is_file(folder.result_file())) {
    return fail(invalid_input(fmt::format("job {} has not finished", settings->name)));
  }
  Result<json> result = read_json(folder.result_file());
  if (!result.ok()) return fail(result.error());
  const Status ran = run_program(folder, *settings, job->document);
  if (!ran.ok()) return fail(ran.error());
  Result<json> again = read_json(folder.replay_file());
  if (!again.ok()) return fail(again.error());
  const std::string expected = result->value("state_sha256", "");
  const std::string found = again->value("state_sha256", "");
  if (found != expected) {
    return fail(
        invalid_input(fmt::format("the replay of job {} has different bits: {} instead of {}",
                                  settings->name, found, expected)));
  }
  fmt::print("{}: {} steps replayed in one process, same bits: {}\n", settings->name,
             again->value("steps", std::int64_t{0}), found);
  return 0;
}

}  // namespace

void add_replay(CLI::App& app, const Context& context, Command& chosen) {
  auto job = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand(
      "replay", "Repeat a finished adaptive job in one process and compare the bits");
  sub->add_option("job", *job, kJobHelp)->required();
  sub->callback(
      [job, &context, &chosen] { chosen = [job, &context] { return replay(context, *job); }; });
}

}  // namespace rubato::cli
