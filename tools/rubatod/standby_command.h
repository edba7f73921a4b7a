// `rubatod --shared-log`: several daemons, of which one leads and the others stand by.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "agent/copy_follower.h"
#include "api/server.h"
#include "control/process_lock.h"
#include "control/standby/leadership.h"
#include "control/standby/shared_registry.h"

namespace rubato {

struct SharedLogArguments {
  std::string url;  // empty: this daemon is alone
  std::string advertise;
  std::string ca_file;
  double take_over_after_s = 5;

  bool given() const { return !url.empty(); }
};
void add_shared_log(CLI::App& app, SharedLogArguments& arguments);

// What a daemon that leads has besides others.
struct Leading {
  std::shared_ptr<std::atomic<bool>> ended;  // the leadership; this daemon must begin anew
  std::shared_ptr<control::Leadership> leadership;
  std::shared_ptr<control::SharedRegistries> registries;
  std::unique_ptr<agent::CopyFollower> copies;  // stopped
  std::optional<control::FileLock> lock;        // of the state folder, while there is no store
  std::string listen{};                         // where it has listened so far
  double silent_s = 0;                          // the last leader, before this one took over
  std::chrono::steady_clock::time_point since{};
};
// Stands by in this state folder until this daemon leads. Nothing: one of the signals `ending`,
// which must be blocked in all threads, has come before.
Result<std::optional<Leading>> stand_by(const SharedLogArguments& arguments,
                                        const std::string& state, const api::ServerOptions& serving,
                                        const sigset_t& ending);
// Waits for one of these signals. False: the leadership has ended before.
bool wait_while_leading(const Leading& leading, const sigset_t& ending);
// On standard output, once it answers.
void say_that_it_leads(const Leading& leading);
// Begins anew as a standby, in this process. Returns only if that is impossible.
Error begin_anew(char** argv);

}  // namespace rubato
