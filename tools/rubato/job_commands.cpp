// Commands for a running job: scale, migrate, profile, ps, events, stop. They read and write the
// job's folder; JOB is its name or its folder. If `scale` and `events` do not find the job there,
// or if a server is given, they ask the daemon.
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "base/stats.h"
#include "commands.h"
#include "elastic/board.h"
#include "elastic/event_text.h"
#include "elastic/launcher.h"
#ifndef RUBATO_RUNTIME_ONLY
#include "control/state.h"
#endif

namespace rubato::cli {

namespace {

using elastic::Board;
using elastic::JobFolder;
using elastic::JobSettings;
using elastic::Target;
using elastic::View;
using nlohmann::json;

struct OpenJob {
  JobFolder folder{""};
  JobSettings settings;
  std::unique_ptr<elastic::FileRegistry> registry;
};

Result<OpenJob> open_job(const std::string& job) {
  Result<std::string> path = elastic::find_job(job);
  if (!path.ok()) return path.error();
  OpenJob open{.folder = JobFolder(*path)};
  Result<JobSettings> settings = open.folder.read_settings();
  if (!settings.ok()) return settings.error();
  open.settings = std::move(*settings);
  auto registry = elastic::FileRegistry::open(open.folder.registry_folder());
  if (!registry.ok()) return registry.error();
  open.registry = std::move(*registry);
  return open;
}

// "running", "finished", "stopped", "failed", or "dead" if its launcher died.
std::string state_of(const JobFolder& folder) {
  const Result<std::string> text = read_file(folder.status_file());
  const json status = parse_json(text.ok() ? *text : "{}");
  if (!status.is_object()) return "unknown";
  std::string state = status.value("state", "unknown");
  if (state == "running" && kill(static_cast<pid_t>(status.value("pid", 0)), 0) != 0) return "dead";
  return state;
}

Status require_running(const OpenJob& job) {
  const std::string state = state_of(job.folder);
  if (state == "running") return ok_status();
  return invalid_input(fmt::format("job {} is not running ({})", job.settings.name, state));
}

// The board of the view on this machine.
Result<Board> open_board(const View& view) {
  Result<Board> board = Board::open(view.board);
  for (const elastic::Member& member : view.members) {
    if (!board.ok()) board = Board::open(member.address.board);
  }
  return board;
}

json describe(OpenJob& job) {
  json result = {{"name", job.settings.name},
                 {"dir", job.folder.path()},
                 {"state", state_of(job.folder)},
                 {"mode", job.settings.adaptive ? "adaptive" : "consistent"},
                 {"logical_workers", job.settings.adaptive ? 0 : job.settings.logical_workers},
                 {"batch", 0},
                 {"max_workers", job.settings.max_workers},
                 {"spares", job.settings.spares},
                 {"newcomers", json::array()},
                 {"workers", json::array()}};
  if (result["state"] == "running") {
    const Result<std::string> text = read_file(job.folder.status_file());
    const json status = parse_json(text.ok() ? *text : "{}");
    if (status.is_object() && status.contains("newcomers")) {
      result["newcomers"] = status["newcomers"];
    }
  }
  if (job.settings.adaptive) {
    result["batch_range"] = to_string(job.settings.batch_range);
    result["lr_rule"] = to_string(job.settings.lr_rule);
  }
  const Result<Target> target = elastic::newest_target(*job.registry);
  if (target.ok()) result["target"] = target->workers;
  if (target.ok() && job.settings.adaptive) result["target_batch"] = target->batch;
  const Result<View> view = elastic::newest_view(*job.registry);
  if (!view.ok() || view->number == 0) return result;
  result["view"] = view->number;
  if (!view->empty()) {
    result["logical_workers"] = view->logical_workers();
    result["batch"] = view->batch;
  }
  if (result["state"] != "running") return result;
  const Result<Board> board = open_board(*view);
  if (!board.ok()) return result;
  result["step"] = board->completed() + 1;
  result["ready_newcomers"] = board->ready_newcomers().load();
  result["refused_connections"] = board->refused_connections().load();
  const elastic::ViewBlock& block = board->block(view->number);
  for (std::size_t i = 0; i < view->members.size(); ++i) {
    const elastic::Member& member = view->members[i];
    const bool begun = block.view == view->number;
    json logical = json::array();
    for (int l = member.hosts.begin; l < member.hosts.end; ++l) logical.push_back(l);
    const double step_ms = begun ? static_cast<double>(block.rows[i].step_us.load()) / 1000.0 : 0.0;
    result["workers"].push_back(
        {{"id", member.address.id},
         {"pid", member.address.pid},
         {"node", member.address.node},
         {"logical", logical},
         {"leader", member.address.id == view->leader},
         {"step", begun ? block.rows[i].reduced.load() + 1 : view->first_step},
         {"step_ms", step_ms}});
  }
  return result;
}

int print_jobs(bool as_json) {
  json jobs = json::array();
  for (const auto& [name, folder] : elastic::registered_jobs()) {
    Result<OpenJob> job = open_job(folder);
    if (job.ok()) jobs.push_back(describe(*job));
  }
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"jobs", jobs}}));
    return 0;
  }
  fmt::print("{:<24} {:<9} {:>7} {:>8} {:>7} {:>8}  {}\n", "NAME", "STATE", "WORKERS", "LOGICAL",
             "BATCH", "STEP", "DIR");
  for (const json& job : jobs) {
    fmt::print("{:<24} {:<9} {:>7} {:>8} {:>7} {:>8}  {}\n", job.value("name", ""),
               job.value("state", ""), job["workers"].size(), job.value("logical_workers", 0),
               job.value("batch", std::int64_t{0}), job.value("step", std::int64_t{0}),
               job.value("dir", ""));
  }
  return 0;
}

int print_job(const std::string& name, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  const json status = describe(*job);
  if (as_json) {
    fmt::print("{}\n", indented_json(status));
    return 0;
  }
  fmt::print("{} {} step {}: {} logical workers, batch {}{}, target {} workers\n",
             status.value("name", ""), status.value("state", ""),
             status.value("step", std::int64_t{0}), status.value("logical_workers", 0),
             status.value("batch", std::int64_t{0}),
             job->settings.adaptive ? " in " + to_string(job->settings.batch_range) : "",
             status.value("target", 0));
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
  if (status.value("refused_connections", std::int64_t{0}) > 0) {
    fmt::print("{} unauthenticated connections were refused\n",
               status["refused_connections"].get<std::int64_t>());
  }
  return 0;
}

Status check_batch(const JobSettings& settings, int workers, std::int64_t batch) {
  if (!settings.adaptive) {
    return invalid_input(
        fmt::format("job {} is consistent, so its batch is fixed; to change the batch, start it "
                    "with --mode adaptive",
                    settings.name));
  }
  if (!settings.batch_range.contains(batch)) {
    return invalid_input(fmt::format("a batch of {} is outside of {}, the batch range of job {}",
                                     batch, to_string(settings.batch_range), settings.name));
  }
  if (batch < workers) {
    return invalid_input(
        fmt::format("a batch of {} cannot be divided among {} workers", batch, workers));
  }
  return ok_status();
}

// `batch` 0: the default.
Status ask_for(OpenJob& job, int workers, std::int64_t batch) {
  Status running = require_running(job);
  if (!running.ok()) return running;
  const int most = std::min(job.settings.max_workers, job.settings.logical_workers);
  if (workers < 1 || workers > most) {
    return invalid_input(
        fmt::format("job {} can run on 1 to {} workers, not {}", job.settings.name, most, workers));
  }
  return elastic::change_target(*job.registry, [&](Target& target) {
    target.workers = workers;
    target.batch = batch;
    target.at = elastic::unix_seconds();
    return ok_status();
  });
}

int scale(const std::string& name, int workers, std::optional<std::int64_t> batch, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  if (batch) {
    const Status fits = check_batch(job->settings, workers, *batch);
    if (!fits.ok()) return fail(fits.error());
  }
  const Status asked = ask_for(*job, workers, batch.value_or(0));
  if (!asked.ok()) return fail(asked.error());
  if (as_json) {
    json answer = {{"name", job->settings.name}, {"target", workers}};
    if (batch) answer["batch"] = *batch;
    fmt::print("{}\n", indented_json(answer));
  } else {
    fmt::print("{} will run on {} workers{}; see 'rubato events {}'\n", job->settings.name, workers,
               batch ? fmt::format(" with a batch of {}", *batch) : "", name);
  }
  return 0;
}

int migrate(const std::string& name, int worker, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  const Status running = require_running(*job);
  if (!running.ok()) return fail(running.error());
  const Result<View> view = elastic::newest_view(*job->registry);
  if (!view.ok()) return fail(view.error());
  if (view->find(worker) == nullptr) {
    std::vector<std::string> ids;
    for (const int id : view->ids()) ids.push_back(std::to_string(id));
    return fail(invalid_input(fmt::format("job {} has no worker {}; it has {}", job->settings.name,
                                          worker, fmt::join(ids, ", "))));
  }
  const Status asked = elastic::change_target(*job->registry, [&](Target& target) {
    if (std::find(target.migrate.begin(), target.migrate.end(), worker) == target.migrate.end()) {
      target.migrate.push_back(worker);
    }
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  if (!asked.ok()) return fail(asked.error());
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"name", job->settings.name}, {"migrate", worker}}));
  } else {
    fmt::print("worker {} will be replaced; see 'rubato events {}'\n", worker, name);
  }
  return 0;
}

int stop(const std::string& name, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  const Status running = require_running(*job);
  if (!running.ok()) return fail(running.error());
  const Status asked = elastic::change_target(*job->registry, [](Target& target) {
    target.stop = true;
    return ok_status();
  });
  if (!asked.ok()) return fail(asked.error());
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"name", job->settings.name}, {"stop", true}}));
  } else {
    fmt::print("{} will write a checkpoint and stop; the same 'rubato run' continues it\n",
               job->settings.name);
  }
  return 0;
}

int events(const std::string& name, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  if (!is_file(job->folder.events_file())) return 0;
  const Result<std::string> text = read_file(job->folder.events_file());
  if (!text.ok()) return fail(text.error());
  if (as_json) {
    fmt::print("{}", *text);
    return 0;
  }
  std::string_view rest = *text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    fmt::print("{}\n", elastic::describe_event(rest.substr(0, end)));
    rest.remove_prefix(end + 1);
  }
  return 0;
}

struct Speed {
  double steps_per_s = 0;
  double samples_per_s = 0;
};
// The speed with this number of workers, measured over about a second of training. Empty if the job
// ends meanwhile.
std::optional<Speed> measure(OpenJob& job, int workers) {
  using std::chrono::steady_clock;
  const auto wait_for = [&](const auto& condition) {
    while (!condition()) {
      if (state_of(job.folder) != "running") return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  };
  View view;
  if (!wait_for([&] {
        const Result<View> now = elastic::newest_view(*job.registry);
        if (!now.ok()) return false;
        view = *now;
        return static_cast<int>(view.members.size()) == workers;
      })) {
    return std::nullopt;
  }
  const Result<Board> board = open_board(view);
  if (!board.ok()) return std::nullopt;
  if (!wait_for([&] { return board->completed() >= view.first_step + 1; })) return std::nullopt;
  const std::int64_t first = board->completed();
  const auto began = steady_clock::now();
  if (!wait_for([&] {
        return board->completed() >= first + 5 &&
               steady_clock::now() - began > std::chrono::seconds(1);
      })) {
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  const double rate = static_cast<double>(board->completed() - first) / seconds;
  return Speed{.steps_per_s = rate, .samples_per_s = rate * static_cast<double>(view.batch)};
}

int profile(const std::string& name, int low, int high, bool as_json) {
  Result<OpenJob> job = open_job(name);
  if (!job.ok()) return fail(job.error());
  if (low > high) return fail(invalid_input("profile: --min is larger than --max"));
  const Result<Target> before = elastic::newest_target(*job->registry);
  if (!before.ok()) return fail(before.error());
  json rows = json::array();
  double base = 0;
  for (int workers = low; workers <= high; ++workers) {
    const Status asked = ask_for(*job, workers, 0);
    if (!asked.ok()) return fail(asked.error());
    const std::optional<Speed> speed = measure(*job, workers);
    if (!speed) return fail(invalid_input("the job ended before it was measured"));
    if (base == 0) base = speed->samples_per_s;
    rows.push_back({{"workers", workers},
                    {"steps_per_s", speed->steps_per_s},
                    {"samples_per_s", speed->samples_per_s},
                    {"speedup", speed->samples_per_s / base}});
  }
  static_cast<void>(ask_for(*job, before->workers, before->batch));
  if (as_json) {
    fmt::print("{}\n", indented_json(json{{"name", job->settings.name}, {"profile", rows}}));
    return 0;
  }
  fmt::print("{:>7} {:>12} {:>12} {:>8}\n", "WORKERS", "STEPS/S", "SAMPLES/S", "SPEEDUP");
  for (const json& row : rows) {
    fmt::print("{:>7} {:>12.2f} {:>12.1f} {:>7.2f}x\n", row["workers"].get<int>(),
               row["steps_per_s"].get<double>(), row["samples_per_s"].get<double>(),
               row["speedup"].get<double>());
  }
  return 0;
}

struct JobArguments {
  std::string job;
  int number = 1;
  std::optional<std::int64_t> batch;
  int low = 1;
  int high = 1;
  bool follow = false;
  std::int64_t after = 0;
  bool json = false;
};

#ifndef RUBATO_RUNTIME_ONLY
// Whether to look for JOB in a folder on this machine. If a daemon runs here, a number means one of
// its jobs, even if an old local job has that name.
bool is_local(const Context& context, const std::string& job) {
  if (context.server.given() || job.empty()) return false;
  if (!is_file(find_state_folder() + "/server.url")) return true;
  return !control::parse_job_number(job) && elastic::find_job(job).ok();
}
#endif

int scale_anywhere(const Context& context, const JobArguments& a) {
#ifndef RUBATO_RUNTIME_ONLY
  if (!is_local(context, a.job)) {
    return scale_daemon_job(context.server, a.job, a.number, a.json);
  }
#endif
  static_cast<void>(context);
  return scale(a.job, a.number, a.batch, a.json);
}

int events_anywhere(const Context& context, const JobArguments& a) {
#ifndef RUBATO_RUNTIME_ONLY
  if (!is_local(context, a.job)) {
    return print_daemon_events(context.server, {a.job, a.follow, a.after, a.json});
  }
#endif
  static_cast<void>(context);
  return events(a.job, a.json);
}

}  // namespace

void add_job_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<JobArguments>();
  const auto add = [&](const char* name, const char* description, bool job_required,
                       Command command) {
    CLI::App* sub = app.add_subcommand(name, description);
    CLI::Option* job = sub->add_option("job", a->job, "Name or folder of the job");
    if (job_required) job->required();
    sub->callback([command = std::move(command), &chosen] { chosen = command; });
    return sub;
  };
  CLI::App* scaling = add("scale", "Change the number of workers of a running job", true,
                          [a, &context] { return scale_anywhere(context, *a); });
  scaling->add_option("workers", a->number, "Number of workers; 0: the daemon's policy decides")
      ->required();
  scaling->add_option("--batch", a->batch,
                      "Adaptive job of 'rubato run': samples per step over all workers "
                      "(default: as many per worker as at the start)");
  scaling->add_flag("--json", a->json, "As JSON");
  CLI::App* migrating = add("migrate", "Replace a worker of a running job with a new one", true,
                            [a] { return migrate(a->job, a->number, a->json); });
  migrating->add_option("worker", a->number, "Worker id as shown by 'rubato ps JOB'")->required();
  migrating->add_flag("--json", a->json, "As JSON");
  CLI::App* prof = add("profile", "Measure a running job's speed for several worker counts", true,
                       [a] { return profile(a->job, a->low, a->high, a->json); });
  prof->add_option("--min", a->low, "Smallest number of workers")->check(CLI::PositiveNumber);
  prof->add_option("--max", a->high, "Largest number of workers")
      ->required()
      ->check(CLI::PositiveNumber);
  prof->add_flag("--json", a->json, "As JSON");
  add("ps", "List jobs of 'rubato run' on this machine, or the workers of one", false, [a] {
    return a->job.empty() ? print_jobs(a->json) : print_job(a->job, a->json);
  })->add_flag("--json", a->json, "As JSON");
  CLI::App* happened = add("events", "Show what happened to a job, or to all jobs of the daemon",
                           false, [a, &context] { return events_anywhere(context, *a); });
  happened->add_flag("-f,--follow", a->follow, "Wait for new events (daemon only)");
  happened->add_option("--after", a->after, "Only events after this number (daemon only)")
      ->check(CLI::NonNegativeNumber);
  happened->add_flag("--json", a->json, "One JSON object per line");
  add("stop", "Checkpoint and stop a job of 'rubato run'", true, [a] {
    return stop(a->job, a->json);
  })->add_flag("--json", a->json, "As JSON");
}

}  // namespace rubato::cli
