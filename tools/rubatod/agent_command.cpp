#include "agent_command.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "agent/agent.h"
#include "base/file.h"
#include "base/text.h"
#include "control/process_lock.h"
#include "control/state_folder.h"

namespace rubato {

namespace {

int agent_fails(const Error& error) {
  fmt::print(stderr, "rubatod agent: {}\n", error.message);
  return 1;
}

// SIGUSR2: leave. The others end the agent.
sigset_t agent_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGUSR2}) sigaddset(&set, number);
  return set;
}

// The next of these signals within `patience`; 0: none came.
int next_signal(const sigset_t& set, std::chrono::milliseconds patience) {
  const timespec wait{.tv_sec = patience.count() / 1000,
                      .tv_nsec = 1'000'000 * (patience.count() % 1000)};
  return std::max(0, sigtimedwait(&set, nullptr, &wait));
}

Result<std::string> token_in(const std::string& file) {
  const Result<std::string> text = read_file(file);
  if (!text.ok()) return invalid_input("--token-file: " + text.error().message);
  std::string token(trim(*text));
  if (token.empty()) return invalid_input(fmt::format("--token-file {}: is empty", file));
  return token;
}

}  // namespace

CLI::App* add_agent(CLI::App& app, AgentArguments& arguments) {
  CLI::App* agent = app.add_subcommand(
      "agent", "Run jobs on this machine for the daemon of a cluster (rubatod --cluster)");
  agent
      ->add_option("--join", arguments.url,
                   "http://HOST:PORT or https://HOST:PORT of the daemon; several with commas if "
                   "there are some that stand by")
      ->required();
  agent
      ->add_option("--token-file", arguments.token_file,
                   "File with the join token of the daemon: join.token in its state folder")
      ->required();
  agent->add_option("--ca-file", arguments.ca_file,
                    "Certificates to trust (PEM), for https (default: the system's)");
  agent
      ->add_option("--address", arguments.address,
                   "IPv4 address at which workers on other nodes connect to those of this one "
                   "(default: the one from which this machine reaches the daemon)")
      ->check(CLI::ValidIPV4);
  agent->add_flag(
      "--leave", arguments.leave,
      "SIGTERM and SIGINT, too, make the node leave: its jobs continue elsewhere before "
      "the agent ends. If the agent is killed, what runs here ends as well (with --isolation "
      "none)");
  agent
      ->add_option("--leave-after", arguments.leave_after_s,
                   "Seconds after which the node leaves by itself (default: it stays)")
      ->check(CLI::Range(1.0, 1e9));
  return agent;
}

int run_agent(const AgentArguments& arguments, const std::string& state, control::Machine machine,
              const control::Isolation& isolation) {
  const sigset_t signals = agent_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const Result<std::string> token = token_in(arguments.token_file);
  if (!token.ok()) return agent_fails(token.error());
  const Result<control::FolderLock> lock = control::FolderLock::take(state);
  if (!lock.ok()) return agent_fails(lock.error());
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return agent_fails({ErrorCode::kIo, "cannot find the path of the running rubatod"});
  const std::string name = machine.name;
  // A node that leaves when its agent is asked to end leaves nothing behind if the agent is killed.
  const std::string pilot_lock = std::filesystem::absolute(state).string() + "/agent.lock";
  std::optional<control::FileLock> pilot;
  if (arguments.leave && !isolation.users) {  // other users could not look at the lock
    pilot = control::FileLock::try_take(pilot_lock, control::FileLock::Children::kDoNotInherit);
    if (!pilot) return agent_fails({ErrorCode::kIo, "cannot lock " + pilot_lock});
  }
  const auto made = agent::Agent::make({.folder = state,
                                        .daemon = {arguments.url, arguments.ca_file},
                                        .join_token = *token,
                                        .machine = std::move(machine),
                                        .supervisor = self,
                                        .isolation = isolation,
                                        .address = arguments.address,
                                        .ends_with = pilot ? pilot_lock : ""});
  if (!made.ok()) return agent_fails(made.error());
  agent::Agent& running = **made;
  fmt::print("rubatod agent: node {}, state in {}, daemon at {}\n", name, state, arguments.url);
  std::fflush(stdout);
  const auto began = std::chrono::steady_clock::now();
  bool time_is_up = false;
  while (!running.has_left()) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    if (arguments.leave_after_s > 0 && passed.count() > arguments.leave_after_s && !time_is_up) {
      fmt::print("rubatod agent: leaving; its time is up\n");
      std::fflush(stdout);
      time_is_up = true;
      running.leave();
    }
    if (const Status turned = running.turn(); !turned.ok()) return agent_fails(turned.error());
    const int number = next_signal(signals, running.pause());
    if (number == 0) continue;
    if (number != SIGUSR2 && !arguments.leave) {
      fmt::print("rubatod agent: stopping; jobs continue and are taken over at the next start\n");
      return 0;
    }
    fmt::print("rubatod agent: leaving\n");
    std::fflush(stdout);
    running.leave();
  }
  fmt::print("rubatod agent: node {} has left\n", name);
  return 0;
}

}  // namespace rubato
