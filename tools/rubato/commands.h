// The subcommands of the program `rubato`. Each adds itself to the parser and returns what runs it;
// the returned function gives the exit code (0 done, 1 failed).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/result.h"

namespace rubato::cli {

struct Context {
  std::string command_line;  // as typed
  std::string share_dir;     // bundled profiles and workloads
};

using Command = std::function<int()>;

void add_sim(CLI::App& app, const Context& context, Command& chosen);
void add_policies(CLI::App& app, Command& chosen);
void add_workload(CLI::App& app, Command& chosen);
void add_run(CLI::App& app, Command& chosen);
void add_join(CLI::App& app, Command& chosen);
void add_job_commands(CLI::App& app, Command& chosen);

// Prints "rubato: message" and returns exit code 1.
int fail(const Error& error);

}  // namespace rubato::cli
