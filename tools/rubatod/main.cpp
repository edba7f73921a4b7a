// rubatod: accepts jobs, runs them on this machine's devices and resizes them while they train.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <filesystem>

#include "agent_command.h"
#include "api/server.h"
#include "base/file.h"
#include "control/cluster/cluster_executor.h"
#include "control/controller.h"
#include "control/exit_deadline.h"
#include "control/isolation.h"
#include "control/labels.h"
#include "control/replay.h"
#include "control/state_folder.h"
#include "control/supervise.h"
#include "describe/manual_page.h"
#include "rubato/parse_errors.h"
#include "standby_command.h"
#include "stop_jobs.h"

namespace rubato {

namespace {

constexpr int kClusterConnections = 4096;

struct Arguments {
  std::string state;
  int cpu_slots = 0;
  std::string node;
  std::vector<std::string> labels;
  double round_s = 5;
  double decide_within_s = 5;
  std::string policy;
  std::string isolation;
  bool local_users = false;
  bool encrypt_jobs = false;
  bool cluster = false;
  double lost_after_s = control::ClusterOptions().lost_after_s;
  AgentArguments agent;
  SharedLogArguments shared_log;
  std::string retain_folders = control::kDefaultFolders;
  std::string retain_events = control::kDefaultEvents;
  api::ServerOptions server;
  std::string folder;      // of `supervise`
  std::string file;        // of `backup`
  double patience_s = 30;  // of `stop-jobs`
};

int fail(const Error& error) {
  fmt::print(stderr, "rubatod: {}\n", error.message);
  return 1;
}

// The files in which clients on this machine look for the address. The state folder is private; the
// runtime folder that systemd creates for a service is not.
std::vector<std::string> url_files_of(const std::string& state) {
  std::vector<std::string> files{state + "/server.url"};
  if (const char* runtime = std::getenv("RUNTIME_DIRECTORY")) {
    files.push_back(std::string(runtime) + "/server.url");
  }
  return files;
}

// The signals that end the daemon. serve() blocks them in all threads and waits for them.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM}) sigaddset(&set, number);
  return set;
}

Result<control::Retention> retention_of(const Arguments& arguments) {
  const auto folders = control::parse_keep_limit(arguments.retain_folders);
  if (!folders.ok()) return invalid_input("--retain-folders: " + folders.error().message);
  const auto events = control::parse_keep_limit(arguments.retain_events);
  if (!events.ok()) return invalid_input("--retain-events: " + events.error().message);
  return control::Retention{.folders = *folders, .events = *events};
}

// The machine as a node.
Result<control::Machine> describe_machine(const Arguments& arguments) {
  Result<control::Machine> found = control::find_machine(arguments.cpu_slots);
  if (!found.ok()) return found;
  control::Machine& machine = *found;
  if (!arguments.node.empty()) machine.name = arguments.node;
  const std::string_view problem = control::node_name_problem(machine.name);
  if (!problem.empty()) {
    return invalid_input(fmt::format("--node {}: the name of a node {}", machine.name, problem));
  }
  for (const std::string& text : arguments.labels) {
    const auto label = control::parse_label(text);
    if (!label.ok()) return invalid_input("--node-label: " + label.error().message);
    machine.labels.insert_or_assign(label->first, label->second);
  }
  if (machine.labels.size() <= control::kMostLabels) return found;
  return invalid_input(
      fmt::format("--node-label: a node can have at most {} labels", control::kMostLabels));
}

int serve(const Arguments& arguments, char** argv) {
  const sigset_t ending = ending_signals();
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const Result<control::Isolation> isolation = control::choose_isolation(arguments.isolation);
  if (!isolation.ok()) return fail(isolation.error());
  const Result<control::Retention> retention = retention_of(arguments);
  if (!retention.ok()) return fail(retention.error());
  if (arguments.shared_log.given() && !arguments.cluster) {
    return fail(invalid_input("--shared-log is for the daemons of a cluster: give --cluster, too"));
  }
  api::ServerOptions serving = arguments.server;
  std::optional<Leading> leading;
  if (arguments.shared_log.given()) {
    auto led = stand_by(arguments.shared_log, arguments.state, serving, ending);
    if (!led.ok()) return fail(led.error());
    if (!led->has_value()) return 0;
    leading = std::move(*led);
    serving.listen = leading->listen;
    serving.doubt = [leadership = leading->leadership] { return leadership->doubt(); };
  }
  std::shared_ptr<const control::ClusterOptions> cluster;
  if (arguments.cluster) {
    cluster = std::make_shared<const control::ClusterOptions>(
        control::ClusterOptions{.registries = leading ? leading->registries : nullptr,
                                .lost_after_s = arguments.lost_after_s});
  }
  const Result<control::Machine> machine =
      cluster ? control::Machine() : describe_machine(arguments);
  if (!machine.ok()) return fail(machine.error());
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return fail({ErrorCode::kIo, "cannot find the path of the running rubatod"});
  // Whoever does not trust the network with tokens does not trust it with models either.
  const bool encrypt_jobs =
      arguments.encrypt_jobs || (cluster && !arguments.server.tls_certificate.empty());
  auto controller =
      control::Controller::start({.folder = arguments.state,
                                  .supervisor = self,
                                  .machine = *machine,
                                  .round_every_s = arguments.round_s,
                                  .isolation = *isolation,
                                  .local_users = arguments.local_users,
                                  .encrypt_jobs = encrypt_jobs,
                                  .decide_within_s = arguments.decide_within_s,
                                  .cluster = cluster,
                                  .retention = *retention,
                                  .witness = leading ? leading->leadership.get() : nullptr});
  if (!controller.ok()) return fail(controller.error());
  if (!arguments.policy.empty()) {
    const Status used =
        (*controller)
            ->use_policy({.tenant = "", .admin = true, .address = "rubatod --policy"},
                         arguments.policy, {});
    // A full disk is no reason not to start.
    if (!used.ok() && (*controller)->store_problem().empty()) return fail(used.error());
  }
  // An agent has up to three connections, which stay open.
  if (cluster) serving.limits.connections = kClusterConnections;
  if (const char* runtime = std::getenv("RUNTIME_DIRECTORY"); serving.local_socket.empty()) {
    if (runtime != nullptr) serving.local_socket = std::string(runtime) + "/rubatod.sock";
  }
  auto server = api::Server::start(**controller, serving);
  if (!server.ok()) return fail(server.error());
  const std::vector<std::string> url_files = url_files_of(arguments.state);
  for (const std::string& file : url_files) {
    const Status told = write_file(file, (*server)->url() + "\n");
    // Such as on a full disk: the daemon runs read-only, and its address is that of the last time.
    if (!told.ok()) fmt::print(stderr, "rubatod: {}\n", told.error().message);
  }
  const std::string devices =
      cluster ? "a cluster" : fmt::format("{} {} devices", machine->devices, machine->type);
  fmt::print("rubatod: {}, state in {}, listening on {}\n", devices, arguments.state,
             (*server)->url());
  if (leading) say_that_it_leads(*leading);
  std::fflush(stdout);
  int number = 0;
  if (!leading) {
    sigwait(&ending, &number);
  } else if (!wait_while_leading(*leading, ending)) {
    return fail(begin_anew(argv));
  }
  control::exit_at_the_latest_after(control::kStopWithin, ending);
  fmt::print("rubatod: stopping; running jobs continue and are adopted at the next start\n");
  std::fflush(stdout);
  for (const std::string& file : url_files) std::filesystem::remove(file, error);
  if (leading) {  // whoever stands by takes over at once
    server->reset();
    controller->reset();
    leading->leadership->resign();
  }
  return 0;
}

// Replays the event log and compares the result with the tables that the daemon reads at startup.
int check(const Arguments& arguments) {
  const Result<control::CheckedLog> checked = control::Store::check(arguments.state);
  if (!checked.ok()) return fail(checked.error());
  const bool same = checked->difference.empty();
  fmt::print("{} events, {} jobs: the log replays to {} state{}\n", checked->events, checked->jobs,
             same ? "the same" : "a DIFFERENT", same ? "" : "; " + checked->difference);
  if (checked->folded > 0) {
    fmt::print("{} earlier events are folded into the state before the log\n", checked->folded);
  }
  return same ? 0 : 1;
}

int agent(const Arguments& arguments) {
  const Result<control::Isolation> isolation = control::choose_isolation(arguments.isolation);
  if (!isolation.ok()) return fail(isolation.error());
  Result<control::Machine> machine = describe_machine(arguments);
  if (!machine.ok()) return fail(machine.error());
  return run_agent(arguments.agent, arguments.state, std::move(*machine), *isolation);
}

int back_up(const Arguments& arguments) {
  const Status copied = control::Store::copy(arguments.state, arguments.file);
  if (!copied.ok()) return fail(copied.error());
  fmt::print("{}: the event log of {}\n", arguments.file, arguments.state);
  return 0;
}

// Simulates the finished jobs of the log with their measured speeds and compares with reality.
int compare(const Arguments& arguments) {
  const auto store = control::Store::open(arguments.state);
  if (!store.ok()) return fail(store.error());
  std::vector<control::Event> events;
  for (;;) {
    const auto page = (*store)->read_events(events.empty() ? 0 : events.back().seq, 10'000, 0, "");
    if (!page.ok()) return fail(page.error());
    if (page->empty()) break;
    events.insert(events.end(), page->begin(), page->end());
  }
  Result<control::State> state = control::Store::replay(arguments.state);
  if (!state.ok()) return fail(state.error());
  const control::Past past = control::past_of(std::move(*state), events);
  const std::string policy = arguments.policy.empty() ? past.state.policy : arguments.policy;
  const auto replayed = control::replay(
      past, policy, arguments.policy.empty() ? past.state.policy_settings : Settings{});
  if (!replayed.ok()) return fail(replayed.error());
  fmt::print("{:<8} {:<24} {:>12} {:>14}\n", "JOB", "NAME", "LIVE-S", "SIMULATED-S");
  for (const control::ReplayedJob& job : replayed->jobs) {
    fmt::print("{:<8} {:<24} {:>12.1f} {:>14.1f}\n", control::job_name_of(job.job), job.name,
               job.live_s, job.simulated_s);
  }
  fmt::print("mean completion: {:.1f} s, simulated under {} {:.1f} s ({:+.1f} %)\n",
             replayed->live_mean_s, policy, replayed->simulated_mean_s, 100 * replayed->error());
  return 0;
}

int stop(const Arguments& arguments) {
  const Result<int> stopped = stop_jobs(arguments.state, arguments.patience_s);
  if (!stopped.ok()) return fail(stopped.error());
  fmt::print("{} running jobs were stopped; they continue when the daemon starts\n", *stopped);
  return 0;
}

cli::ManualPage manual_page() {
  return {
      .section = 8,
      .what = "shares the devices of a machine among elastic training jobs",
      .synopsis = "[\\fIOPTIONS\\fR] [\\fICOMMAND\\fR]",
      .sections = {
          {"SIGNALS",
           "SIGTERM and SIGINT stop the daemon. Running jobs keep training and are adopted "
           "at the next start, also after kill \\-9. It ends within 10 seconds; a second signal "
           "ends it at once."},
          {"FILES",
           ".TP\n\\fI$RUBATO_STATE\\fR, \\fI/var/lib/rubato\\fR (root), "
           "\\fI~/.local/state/rubato\\fR\nState folder: rubato.db (the event log), jobs/ "
           "(a folder per job), admin.token, server.url. Private to its user.\n.TP\n"
           "\\fI/etc/default/rubato\\fR\nOptions of the system service."},
          {"SEE ALSO", "rubato(1)"}}};
}

int run(int argc, char** argv) {
  Arguments arguments{.state = control::default_state_folder()};
  arguments.server.listen = control::kDefaultListen;
  CLI::App app{"rubatod: shares this machine's devices among elastic training jobs."};
  app.name("rubatod");
  app.set_version_flag("--version", RUBATO_VERSION);
  app.fallthrough();  // --state may also come after the command
  // Not capture_default_str(): the manual page must not contain the home folder of its builder.
  app.add_option("--state", arguments.state,
                 "Folder for the event log, jobs and tokens (default: $RUBATO_STATE, else "
                 "~/.local/state/rubato, or /var/lib/rubato for root)");
  app.add_option("--listen", arguments.server.listen, "HOST:PORT of the API; port 0: any free port")
      ->capture_default_str();
  app.add_option("--cpu-slots", arguments.cpu_slots, "Share this many CPU slots instead of GPUs")
      ->check(cli::between(1, 4096));
  app.add_option("--node", arguments.node,
                 "Name of this machine in tables and events (default: its host name)");
  app.add_option("--node-label", arguments.labels,
                 "NAME=VALUE, shown with the node (repeatable); for people and programs")
      ->allow_extra_args(false);
  app.add_flag("--cluster", arguments.cluster,
               "Run jobs on the machines whose agents join (rubatod agent), not on this one");
  app.add_option(
         "--lost-after", arguments.lost_after_s,
         "With --cluster: seconds after which a node whose agent is silent is lost, and its "
         "jobs continue elsewhere")
      ->check(cli::between(1, 86'400))
      ->capture_default_str();
  app.add_option("--round", arguments.round_s,
                 "Seconds between scheduling rounds while nothing happens")
      ->check(cli::between(0.1, 3600))
      ->capture_default_str();
  app.add_option(
         "--decide-within", arguments.decide_within_s,
         "Seconds that a policy may take to decide; then waiting jobs start on free devices "
         "by priority and arrival until it has")
      ->check(cli::between(0.01, 3600))
      ->capture_default_str();
  app.add_option("--policy", arguments.policy, "Scheduling policy (default: the one used last)");
  app.add_option(
         "--isolation", arguments.isolation,
         "user: every job runs as its submitter's unix user (needs root); none: all jobs run "
         "as the daemon's user (the default unless it is root)")
      ->check(CLI::IsMember({"user", "none"}))
      ->envname("RUBATO_ISOLATION");
  app.add_option("--socket", arguments.server.local_socket,
                 "Unix socket on which local users need no token (default: rubatod.sock in the "
                 "service's runtime folder)");
  app.add_flag("--local-users", arguments.local_users,
               "Every local user may submit jobs, as a tenant of the same name");
  app.add_option(
         "--retain-folders", arguments.retain_folders,
         "How long, and of how many ended jobs, folders with checkpoints and logs are kept: "
         "30d, 1000, '30d,1000', or all")
      ->capture_default_str();
  app.add_option("--retain-events", arguments.retain_events,
                 "How long, and how many, events are kept in the log; jobs are listed for ever")
      ->capture_default_str();
  app.add_option("--tls-cert", arguments.server.tls_certificate, "Certificate chain (PEM)");
  app.add_option("--tls-key", arguments.server.tls_key, "Private key (PEM)");
  app.add_flag("--insecure", arguments.server.insecure,
               "Listen beyond loopback without TLS (tokens are sent unencrypted)");
  app.add_flag("--encrypt-jobs", arguments.encrypt_jobs,
               "Encrypt what workers of a job send each other between nodes, unless the job says "
               "'encrypt: false' (always so in a cluster with TLS)");
  app.add_flag("--open-metrics", arguments.server.open_metrics, "Serve /metrics without a token");
  add_shared_log(app, arguments.shared_log);
  CLI::App* supervise = app.add_subcommand("supervise", "Run the processes of one job (internal)");
  supervise->group("");
  supervise->add_option("folder", arguments.folder)->required();
  CLI::App* checking = app.add_subcommand(
      "check", "Replay the event log of a stopped daemon and check it against the tables");
  CLI::App* backing = app.add_subcommand(
      "backup", "Copy the event log to a new file (mode 0600); the daemon may run");
  backing->add_option("file", arguments.file, "The file")->required();
  CLI::App* comparing = app.add_subcommand(
      "compare", "Simulate the finished jobs of a stopped daemon and compare with reality");
  CLI::App* stopping = app.add_subcommand(
      "stop-jobs",
      "Checkpoint and stop the jobs of a stopped daemon; they continue at its next start");
  stopping
      ->add_option("--patience", arguments.patience_s,
                   "Seconds after which jobs that still run are killed")
      ->check(cli::between(0, 86'400))
      ->capture_default_str();
  CLI::App* joining = add_agent(app, arguments.agent);
  CLI::App* page = app.add_subcommand("manpage", "Print the manual page rubatod(8)");
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string problem = cli::unknown_command(app, words); !problem.empty()) {
    return fail(invalid_input(problem));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(invalid_input(cli::parse_problem(app, error)));
  }
  if (supervise->parsed()) return control::supervise(arguments.folder);
  if (joining->parsed()) return agent(arguments);
  if (checking->parsed()) return check(arguments);
  if (backing->parsed()) return back_up(arguments);
  if (comparing->parsed()) return compare(arguments);
  if (stopping->parsed()) return stop(arguments);
  if (page->parsed()) {
    cli::print_manual_page(app, manual_page());
    return 0;
  }
  return serve(arguments, argv);
}

}  // namespace

}  // namespace rubato

int main(int argc, char** argv) {
  try {
    return rubato::run(argc, argv);
  } catch (const std::exception& error) {
    std::fputs("rubatod: internal error: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
