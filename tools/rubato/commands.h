// The subcommands of the program `rubato`. Each function adds a command to the parser. If that
// command is chosen on the command line, it sets `chosen` to the function that runs it and returns
// the exit code (0 success, 1 failure, 2 possible but not now).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client.h"
#include "parse_errors.h"
#include "which_job.h"

namespace rubato::cli {

struct Context {
  std::string command_line;      // as typed, quoted for a shell
  std::string share_dir;         // bundled profiles and workloads
  ServerChoice server{};         // filled in by the parser
  DaemonJobs* daemon = nullptr;  // null in a build of the runtime alone
};

using Command = std::function<int()>;

// Help text of the argument JOB.
inline constexpr const char* kJobHelp = "Id (j12 or 12), name or folder of the job";

// --- Jobs of 'rubato run' and of the daemon
void add_ps(CLI::App& app, const Context& context, Command& chosen);
void add_worker_commands(CLI::App& app, const Context& context,
                         Command& chosen);  // scale, migrate, stop
void add_profile(CLI::App& app, const Context& context, Command& chosen);
void add_events(CLI::App& app, const Context& context, Command& chosen);
void add_replay(CLI::App& app, const Context& context, Command& chosen);
void add_audit(CLI::App& app, const Context& context, Command& chosen);
void add_export(CLI::App& app, const Context& context, Command& chosen);

// --- Without a daemon
void add_run(CLI::App& app, const Context& context, Command& chosen);  // and join
void add_sim(CLI::App& app, const Context& context, Command& chosen);
void add_report(CLI::App& app, Command& chosen);
void add_policies(CLI::App& app, Command& chosen);
void add_workload(CLI::App& app, Command& chosen);
void add_describe_commands(CLI::App& app, Command& chosen);  // completion, manpage

// --- Talking to a daemon
void add_submit_commands(CLI::App& app, const Context& context,
                         Command& chosen);  // and plan, schema
void add_queue_commands(CLI::App& app, const Context& context, Command& chosen);  // and status, why
void add_change_commands(CLI::App& app, const Context& context,
                         Command& chosen);  // pause, resume, cancel, set
void add_rm(CLI::App& app, const Context& context, Command& chosen);
void add_wait(CLI::App& app, const Context& context, Command& chosen);
void add_logs(CLI::App& app, const Context& context, Command& chosen);
void add_copy(CLI::App& app, const Context& context, Command& chosen);  // cp, ls
void add_usage(CLI::App& app, const Context& context, Command& chosen);
void add_top(CLI::App& app, const Context& context, Command& chosen);
void add_cluster_commands(CLI::App& app, const Context& context, Command& chosen);
void add_node_commands(CLI::App& app, const Context& context,
                       Command& chosen);  // nodes, drain, undrain
void add_pilots(CLI::App& app, const Context& context, Command& chosen);
void add_doctor(CLI::App& app, const Context& context, Command& chosen);
// `sim --from-live`. Without policies it uses the daemon's policy.
int forecast_live(
    const ServerChoice& server,
    std::vector<std::pair<std::string, std::map<std::string, std::string, std::less<>>>> policies,
    bool as_json);

// --- Shared by several commands
// Prints the workers of a job, as `ps JOB` does.
int print_job(const FoundJob& job, bool as_json);

struct MeasuredSpeed {
  int devices = 0;
  int nodes = 1;
  double steps_per_s = 0;
  double samples_per_s = 0;
};
// Prints speeds as `profile` does. `unit` is "workers" or "devices".
void print_speeds(const std::string& name, std::span<const MeasuredSpeed> speeds, const char* unit,
                  bool as_json);

// Waits until these jobs (ids; "j5[]" is an array) have ended, as `wait` does.
int wait_for_jobs(const ServerChoice& server, const std::vector<std::string>& ids, bool as_json);

// Prints "rubato: message" and returns exit code 1.
int fail(const Error& error);

}  // namespace rubato::cli
