// `rubatod agent`: runs jobs on this machine for a daemon elsewhere.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "control/isolation.h"
#include "control/machine.h"

namespace rubato {

struct AgentArguments {
  std::string url;
  std::string token_file;
  std::string ca_file;
  std::string address{};
  double leave_after_s = 0;  // 0: it stays
  bool leave = false;
};

// Adds the command with its own options. Those of the program that describe this machine hold for
// it, too.
CLI::App* add_agent(CLI::App& app, AgentArguments& arguments);

// Runs until a signal ends it. Returns the exit code.
int run_agent(const AgentArguments& arguments, const std::string& state, control::Machine machine,
              const control::Isolation& isolation);

}  // namespace rubato
