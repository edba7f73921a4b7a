#include "control/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "control/job_files.h"
#include "elastic/worker.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// Workers of a killed supervisor end by themselves within moments.
constexpr auto kPatienceWithWorkers = std::chrono::seconds(2);

std::string supervision_file(const std::string& folder) { return folder + "/supervise.json"; }
std::string supervisor_lock(const std::string& folder) { return folder + "/supervisor.lock"; }
std::string workers_lock(const std::string& folder) { return folder + "/workers.lock"; }

std::optional<ProcessId> supervisor_of(const std::string& folder) {
  const Result<std::string> text = read_job_file(folder, "supervisor.lock", 100);
  ProcessId process;
  if (!text.ok() || std::sscanf(text->c_str(), "%d %lu", &process.pid, &process.started) != 2) {
    return std::nullopt;
  }
  // The job can write the file, and nobody else's process must be signalled.
  if (!is_called(process.pid, "supervise", folder)) return std::nullopt;
  return process;
}

void name_supervisor(const FileLock& lock) {
  const std::optional<ProcessId> self = identify(getpid());
  if (!self) return;
  const std::string text = fmt::format("{} {}\n", self->pid, self->started);
  if (ftruncate(lock.file(), 0) != 0) return;
  static_cast<void>(pwrite(lock.file(), text.data(), text.size(), 0) + 1);
}

// No process of an earlier supervisor may be alive when this one starts workers.
void take_workers_lock(const std::string& folder) {
  const auto began = steady_clock::now();
  for (;;) {
    if (auto lock = FileLock::try_take(workers_lock(folder), FileLock::Children::kInherit)) {
      lock->keep();
      return;
    }
    if (steady_clock::now() - began > kPatienceWithWorkers) {
      kill_all_with(elastic::kJobFolderVariable, folder);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Status write_supervision(const elastic::LaunchOptions& options, std::int64_t first_target) {
  json settings = elastic::to_json(options.settings);
  settings["command"] = options.command;
  const json order = {{"settings", std::move(settings)},
                      {"processes", elastic::to_json(options.processes)},
                      {"first_target", first_target}};
  return write_file(supervision_file(options.folder), indented_json(order) + "\n");
}

Result<Supervision> read_supervision(const std::string& folder) {
  const std::string path = supervision_file(folder);
  const Result<json> read = read_job_object(folder, "supervise.json", kMostSettingsBytes);
  if (!read.ok()) return read.error();
  const json& order = *read;
  if (!order.contains("settings") || !order.contains("processes") ||
      !order.contains("first_target") || !order["first_target"].is_number_integer()) {
    return invalid_input(fmt::format("{}: expected settings, processes and first_target", path));
  }
  const Result<elastic::JobSettings> settings = elastic::parse_settings(order["settings"], path);
  if (!settings.ok()) return settings.error();
  Result<elastic::ProcessOptions> processes =
      elastic::parse_process_options(order["processes"], path);
  if (!processes.ok()) return processes.error();
  return Supervision{.options = {.folder = folder,
                                 .settings = *settings,
                                 .workers = settings->first_workers,
                                 .command = settings->command,
                                 .node = {.name = "local"},
                                 .quiet = true,
                                 .keep_target = true,
                                 .listed = false,
                                 .processes = std::move(*processes)},
                     .first_target = order["first_target"].get<std::int64_t>()};
}

Result<pid_t> start_supervisor(const std::string& program, const std::string& folder) {
  const std::string log = folder + "/supervisor.log";
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::array<std::string, 3> words = {program, "supervise", folder};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t pid = 0;
  const int code =
      posix_spawnp(&pid, program.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    return Error{ErrorCode::kIo, fmt::format("cannot start {}: {}", program, std::strerror(code))};
  }
  return pid;
}

bool is_supervised(const std::string& folder) { return FileLock::is_held(supervisor_lock(folder)); }
bool has_workers(const std::string& folder) { return FileLock::is_held(workers_lock(folder)); }

bool signal_supervisor(const std::string& folder, int signal) {
  const std::optional<ProcessId> process = supervisor_of(folder);
  return process && is_supervised(folder) && send_signal(*process, signal);
}

int kill_supervised(const std::string& folder) {
  return kill_all_called_or_with("supervise", folder, elastic::kJobFolderVariable, folder);
}

bool retire(const std::string& folder) {
  if (!is_directory(folder)) return true;
  const auto lock = FileLock::try_take(supervisor_lock(folder), FileLock::Children::kDoNotInherit);
  if (!lock || has_workers(folder)) return false;
  std::remove(supervision_file(folder).c_str());
  return !is_file(supervision_file(folder));
}

Status write_final_status(const std::string& folder, const std::string& state,
                          const std::string& message) {
  const json status = {{"state", state}, {"message", message}};
  return write_file(elastic::JobFolder(folder).status_file(), compact_json(status) + "\n");
}

int supervise(const std::string& folder_given) {
  const std::string folder = std::filesystem::absolute(folder_given).lexically_normal().string();
  auto lock = FileLock::try_take(supervisor_lock(folder), FileLock::Children::kDoNotInherit);
  if (!lock || !is_file(supervision_file(folder))) return kSupervisedAlready;
  // The lock belongs to the open file, which the child inherits.
  const pid_t child = fork();
  if (child < 0) {
    fmt::print(stderr, "rubato: cannot start a supervisor: {}\n", std::strerror(errno));
    return 1;
  }
  if (child > 0) return kHandedOver;
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // this process reaps what workers leave behind
  name_supervisor(*lock);
  lock->keep();
  take_workers_lock(folder);
  const Result<Supervision> order = read_supervision(folder);
  Error problem;
  if (order.ok()) {
    const Result<elastic::LaunchResult> result = elastic::launch(order->options);
    if (result.ok()) return 0;  // the launcher wrote the final status
    problem = result.error();
  } else {
    problem = order.error();
  }
  fmt::print(stderr, "rubato: {}\n", problem.message);
  // An operating system error may be temporary, so the daemon retries for a while.
  const char* state = problem.code == ErrorCode::kIo ? "broken" : "failed";
  static_cast<void>(write_final_status(folder, state, problem.message));
  return 1;
}

}  // namespace rubato::control
