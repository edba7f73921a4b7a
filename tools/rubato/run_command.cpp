// rubato run: starts a training job on this machine. rubato join: adds workers on another machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/text.h"
#include "commands.h"
#include "elastic/job/checkpoint_place.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/launcher.h"
#include "elastic/launch/lock_node.h"
#include "elastic/memory/board.h"

namespace rubato::cli {

namespace {

struct RunArguments {
  elastic::LaunchOptions launch;
  int logical = 0;
  int max_workers = 0;
  std::string mode = "consistent";
  bool mode_given = false;
  std::string batch_range;
  std::string lr_rule;
  std::string checkpoints;  // a URL
};

// Handles the options that exist in only one of the modes, and the limits on logical workers and
// workers.
Status choose_mode(const RunArguments& arguments, elastic::LaunchOptions& launch) {
  elastic::JobSettings& settings = launch.settings;
  settings.adaptive = arguments.mode == "adaptive";
  // Whoever chooses a mode or logical workers knows that the program uses the runtime.
  const bool stated = arguments.mode_given || arguments.logical > 0;
  settings.program = stated ? elastic::ProgramKind::kRuntime : elastic::ProgramKind::kUnknown;
  if (!settings.adaptive) {
    const char* option = !arguments.batch_range.empty() ? "--batch-range" : "--lr-rule";
    if (!arguments.batch_range.empty() || !arguments.lr_rule.empty()) {
      return invalid_input(fmt::format(
          "run: {} needs --mode adaptive; the batch of a consistent job is fixed", option));
    }
    settings.logical_workers = arguments.logical;  // 0: the program's own number
    if (arguments.logical > 0 && launch.workers > arguments.logical) {
      return invalid_input(
          fmt::format("run: {} workers cannot share {} logical workers; use --logical {} or more",
                      launch.workers, settings.logical_workers, launch.workers));
    }
    settings.max_workers = elastic::kMaxWorkers;
    for (const int limit : {arguments.max_workers, arguments.logical}) {
      if (limit > 0) settings.max_workers = std::min(settings.max_workers, limit);
    }
    return ok_status();
  }
  if (arguments.logical > 0) {
    return invalid_input(
        "run: --logical is for consistent jobs; an adaptive job has as many logical workers as "
        "workers");
  }
  if (arguments.batch_range.empty()) {
    return invalid_input(
        "run: --mode adaptive needs --batch-range LOW..HIGH, samples per step over all workers");
  }
  const Result<elastic::BatchRange> range = elastic::parse_batch_range(arguments.batch_range);
  if (!range.ok()) return invalid_input("run: --batch-range: " + range.error().message);
  settings.batch_range = *range;
  if (!arguments.lr_rule.empty()) {
    const Result<elastic::LrRule> rule = elastic::parse_lr_rule(arguments.lr_rule);
    if (!rule.ok()) return invalid_input("run: --lr-rule: " + rule.error().message);
    settings.lr_rule = *rule;
  }
  settings.max_workers = arguments.max_workers > 0 ? arguments.max_workers : launch.workers;
  return ok_status();
}

// Prints the result and returns the exit code. `continue_hint` says what to do after a stop.
int report(const Result<elastic::LaunchResult>& result, const std::string& folder,
           const char* continue_hint) {
  if (!result.ok()) return fail(result.error());
  switch (result->state) {
    case elastic::LaunchResult::State::kFinished: {
      const Result<std::string> written = read_file(elastic::JobFolder(folder).result_file());
      if (!written.ok()) return fail(written.error());
      fmt::print("{}", *written);
      return 0;
    }
    case elastic::LaunchResult::State::kStopped:
      fmt::print(stderr, "{}; {}\n", result->message, continue_hint);
      return 0;
    case elastic::LaunchResult::State::kFailed:
    case elastic::LaunchResult::State::kGone:  // only of a share
      break;
  }
  fmt::print(stderr, "rubato: the job failed: {}\nrubato: its logs are in {}/logs\n",
             result->message, folder);
  return 1;
}

Status check_node(const elastic::NodeIdentity& node) {
  if (elastic::is_node_name(node.name)) return ok_status();
  return invalid_input(fmt::format(
      "--node: '{}' is not a valid node name; expected up to 32 letters, digits, '-' and '_'",
      node.name));
}

int join_job(const Context& context, elastic::LaunchOptions launch, const std::string& name) {
  const Status node = check_node(launch.node);
  if (!node.ok()) return fail(node.error());
  const Result<FoundJob> job =
      which_job_of_run(context, name, "the daemon manages its workers; use 'rubato scale'");
  if (!job.ok()) return fail(job.error());
  launch.folder = job->folder;
  return report(elastic::join(launch), launch.folder, "the same command joins again");
}

int run_job(RunArguments arguments) {
  elastic::LaunchOptions& launch = arguments.launch;
  elastic::JobSettings& settings = launch.settings;
  const Status node = check_node(launch.node);
  if (!node.ok()) return fail(node.error());
  if (launch.command.empty()) {
    return fail(
        invalid_input("run: nothing to run; put the program after '--', as in "
                      "'rubato run --workers 2 -- ./train'"));
  }
  if (!settings.registry.empty()) {
    const auto url = elastic::parse_registry_url(settings.registry);
    if (!url.ok()) return fail(invalid_input("run: --registry: " + url.error().message));
  }
  const Status chosen = choose_mode(arguments, launch);
  if (!chosen.ok()) return fail(chosen.error());
  if (settings.max_workers < launch.workers) {
    return fail(invalid_input(fmt::format("run: --workers {} is more than --max-workers {}",
                                          launch.workers, settings.max_workers)));
  }
  const std::string program = std::filesystem::path(launch.command.front()).filename().string();
  if (settings.name.empty()) {
    settings.name =
        launch.folder.empty()
            ? fmt::format("{}-{}", program, getpid())
            : std::filesystem::path(launch.folder).lexically_normal().filename().string();
  }
  if (settings.name.empty()) settings.name = program;
  if (!arguments.checkpoints.empty()) {
    const auto place = elastic::parse_checkpoint_place(arguments.checkpoints);
    if (!place.ok()) return fail(invalid_input("run: --checkpoints: " + place.error().message));
    std::string name = settings.name;
    std::replace(name.begin(), name.end(), '/', '_');
    settings.checkpoints = fmt::format("{}/{}-{}", *place, name, elastic::random_token());
  }
  if (launch.folder.empty()) launch.folder = fmt::format("rubato-{}", settings.name);
  launch.folder = std::filesystem::absolute(launch.folder).string();
  if (!settings.ledger.empty()) {
    settings.ledger = std::filesystem::absolute(settings.ledger).string();
  }
  if (!launch.quiet) {
    const std::string what =
        settings.adaptive
            ? fmt::format("batch in {} ({})", arguments.batch_range, to_string(settings.lr_rule))
        : settings.logical_workers == 0 ? "the program's own number of logical workers"
                                        : counted(settings.logical_workers, "logical worker");
    fmt::print(stderr, "job {} in {}: {} on {}\n", settings.name, launch.folder, what,
               counted(launch.workers, "worker"));
  }
  return report(elastic::launch(launch), launch.folder, "the same command continues it");
}

void add_node_options(CLI::App& command, elastic::NodeIdentity& node) {
  command.add_option("--node", node.name,
                     "Name of this machine within the job (default: the host name)");
  command
      .add_option("--listen", node.listen,
                  "IPv4 address on which workers accept connections from other machines")
      ->check(CLI::ValidIPV4)
      ->capture_default_str();
}

void add_join(CLI::App& app, const Context& context, Command& chosen) {
  struct JoinArguments {
    elastic::LaunchOptions launch;
    std::string job;
  };
  auto arguments = std::make_shared<JoinArguments>();
  elastic::LaunchOptions& launch = arguments->launch;
  CLI::App* join =
      app.add_subcommand("join", "Add workers on this machine to a job started on another machine");
  join->add_option("job", arguments->job,
                   "Folder of the job, shared by all its machines, or its name")
      ->required();
  join->add_option("--workers", launch.workers, "Worker processes on this machine")
      ->check(between(1, elastic::kMaxWorkers));
  add_node_options(*join, launch.node);
  join->add_flag("--quiet", launch.quiet, "No progress on standard error");
  join->callback([arguments, &context, &chosen] {
    chosen = [arguments, &context] { return join_job(context, arguments->launch, arguments->job); };
  });
}

}  // namespace

void add_run(CLI::App& app, const Context& context, Command& chosen) {
  auto arguments = std::make_shared<RunArguments>();
  elastic::LaunchOptions& launch = arguments->launch;
  CLI::App* run = app.add_subcommand("run", "Start an elastic training job on this machine");
  run->add_option("--workers", launch.workers, "Worker processes at the start")
      ->check(between(1, elastic::kMaxWorkers));
  run->add_option("--logical", arguments->logical,
                  "Logical workers; they determine the result, no matter how many workers run "
                  "(default: the program's own number)")
      ->check(between(1, 4096));
  run->add_option("--max-workers", arguments->max_workers,
                  "Largest number of workers for 'rubato scale' (default: as many as logical "
                  "workers, or --workers for an adaptive job)")
      ->check(between(1, elastic::kMaxWorkers));
  CLI::Option* mode =
      run->add_option("--mode", arguments->mode,
                      "consistent: the result never depends on the workers; adaptive: the batch "
                      "follows them")
          ->check(one_of({"consistent", "adaptive"}))
          ->capture_default_str();
  run->add_option("--batch-range", arguments->batch_range,
                  "Adaptive: LOW..HIGH, samples per step over all workers");
  run->add_option(
      "--lr-rule", arguments->lr_rule,
      "Adaptive: how the learning rate follows the batch: linear (default), sqrt or none");
  run->add_option("--spares", launch.settings.spares,
                  "Spare workers kept ready to replace lost or slow ones")
      ->check(between(0, elastic::kMaxWorkers));
  run->add_option("--dir", launch.folder, "Folder of the job (default: ./rubato-NAME)");
  run->add_option("--name", launch.settings.name,
                  "Name of the job (default: from --dir or the program)");
  run->add_option("--registry", launch.settings.registry,
                  "Where views are decided: file:/FOLDER or etcd:http://HOST:PORT,.../PREFIX "
                  "(default: in the job's folder)");
  run->add_flag("--encrypt", launch.settings.encrypt,
                "Encrypt what its workers send each other between machines");
  run->add_option("--ledger", launch.settings.ledger, "Record every consumed sample in this file");
  run->add_option("--failure-timeout", launch.settings.failure_timeout_s,
                  "Seconds after which a silent worker counts as lost")
      ->check(between(0.1, 3600.0))
      ->capture_default_str();
  run->add_option("--checkpoint-every", launch.settings.checkpoint_every_s,
                  "Seconds between durable checkpoints; 0: none")
      ->check(at_least(0))
      ->capture_default_str();
  run->add_option("--checkpoint-steps", launch.settings.checkpoint_every_steps,
                  "Steps between durable checkpoints, instead of seconds")
      ->check(at_least(0));
  run->add_option("--checkpoint-keep", launch.settings.checkpoint_keep, "Checkpoints to keep")
      ->check(between(1, 1000))
      ->capture_default_str();
  run->add_option("--checkpoints", arguments->checkpoints,
                  "Where checkpoints are: file:/FOLDER (default: in the job's folder)");
  run->add_option(
         "--consistency", launch.settings.consistency,
         "d1: same bits on identical processors; d2: also on different x86 processors, but slower")
      ->check(one_of({"d1", "d2"}))
      ->capture_default_str();
  add_node_options(*run, launch.node);
  run->add_flag("--quiet", launch.quiet, "No progress on standard error");
  run->add_option("command", launch.command, "Program and arguments, after --")->required();
  run->positionals_at_end();
  run->callback([arguments, mode, &chosen] {
    arguments->mode_given = mode->count() > 0;
    chosen = [arguments] { return run_job(*arguments); };
  });
  add_join(app, context, chosen);
}

}  // namespace rubato::cli
