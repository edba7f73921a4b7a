// The subcommands of the program `rubato`. Each function adds a command to the parser. If that
// command is chosen on the command line, it sets `chosen` to the function that runs it and returns
// the exit code (0 success, 1 failure, 2 possible but not now).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client.h"

namespace rubato::cli {

struct Context {
  std::string command_line;  // as typed
  std::string share_dir;     // bundled profiles and workloads
  ServerChoice server{};     // filled in by the parser
};

using Command = std::function<int()>;

// --- Without a daemon
void add_run(CLI::App& app, Command& chosen);
void add_job_commands(CLI::App& app, const Context& context, Command& chosen);
void add_sim(CLI::App& app, const Context& context, Command& chosen);
void add_policies(CLI::App& app, Command& chosen);
void add_workload(CLI::App& app, Command& chosen);
void add_join(CLI::App& app, Command& chosen);
void add_replay(CLI::App& app, Command& chosen);
void add_describe_commands(CLI::App& app, Command& chosen);  // completion, manpage

// --- Talking to a daemon
void add_submit_commands(CLI::App& app, const Context& context,
                         Command& chosen);  // and plan, schema
void add_queue_commands(CLI::App& app, const Context& context, Command& chosen);  // and status, why
void add_change_commands(CLI::App& app, const Context& context, Command& chosen);
void add_logs(CLI::App& app, const Context& context, Command& chosen);
void add_top(CLI::App& app, const Context& context, Command& chosen);
void add_cluster_commands(CLI::App& app, const Context& context, Command& chosen);
void add_doctor(CLI::App& app, const Context& context, Command& chosen);
// `scale` and `events` for a job of the daemon.
int scale_daemon_job(const ServerChoice& server, const std::string& job, int devices, bool as_json);
struct EventsRequest {
  std::string job;  // empty: all
  bool follow = false;
  std::int64_t after = 0;
  bool as_json = false;
};
// `sim --from-live`. Without policies it uses the daemon's policy.
int forecast_live(
    const ServerChoice& server,
    std::vector<std::pair<std::string, std::map<std::string, std::string, std::less<>>>> policies,
    bool as_json);
int print_daemon_events(const ServerChoice& server, const EventsRequest& request);

// Prints "rubato: message" and returns exit code 1.
int fail(const Error& error);

}  // namespace rubato::cli
