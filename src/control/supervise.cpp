#include "control/supervise.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

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
#include "control/job_unit.h"
#include "control/json_fields.h"
#include "control/process_tree.h"
#include "elastic/job/registry_url.h"
#include "elastic/launch/opaque_job.h"
#include "elastic/worker/worker.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// Workers of a killed supervisor end by themselves within moments.
constexpr auto kPatienceWithWorkers = std::chrono::seconds(2);
// The live loop waits for this.
// Whoever holds the lock that a job ends with may be replaced.
constexpr auto kPatienceWithLock = std::chrono::seconds(5);
constexpr auto kLookAtLock = std::chrono::milliseconds(500);
constexpr auto kPatienceWithTree = std::chrono::milliseconds(50);

std::string supervision_file(const std::string& folder) { return folder + "/supervise.json"; }
std::string supervisor_lock(const std::string& folder) { return folder + "/supervisor.lock"; }
std::string workers_lock(const std::string& folder) { return folder + "/workers.lock"; }

std::optional<ProcessId> supervisor_of(const std::string& folder) {
  const std::optional<ProcessId> process = read_process_id(supervisor_lock(folder));
  // The job can write the file, and nobody else's process must be signalled.
  if (!process || !is_called(process->pid, "supervise", folder)) return std::nullopt;
  return process;
}

// Whoever owns the job's folder runs its processes. Processes of others are never signalled: the
// files in the folder, which the job can write, might name them.
uid_t user_of_job(const std::string& folder) {
  struct stat info {};
  if (geteuid() != 0) return geteuid();
  return lstat(folder.c_str(), &info) == 0 ? info.st_uid : geteuid();
}

int kill_what_is_left(const std::string& folder) {
  return kill_leftovers(fmt::format("{}={}", elastic::kJobFolderVariable, folder),
                        workers_lock(folder), user_of_job(folder));
}

void name_supervisor(const FileLock& lock) {
  const std::optional<ProcessId> self = identify(getpid());
  if (!self) return;
  const std::string text = fmt::format("{} {}\n", self->pid, self->started);
  if (ftruncate(lock.file(), 0) != 0) return;
  static_cast<void>(pwrite(lock.file(), text.data(), text.size(), 0) + 1);
}

// In a service, the output goes nowhere at first (start_supervisor.h).
void write_to_log(const std::string& folder) {
  struct stat output {};
  struct stat nowhere {};
  if (fstat(STDERR_FILENO, &output) != 0 || stat("/dev/null", &nowhere) != 0 ||
      output.st_rdev != nowhere.st_rdev || !S_ISCHR(output.st_mode)) {
    return;
  }
  const std::string log = folder + "/supervisor.log";
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  if (file < 0) return;
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  close(file);
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
      kill_what_is_left(folder);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// True once nobody has held the lock for a while, and from then on. Null if there is no lock.
std::function<bool()> when_released(const std::string& lock) {
  if (lock.empty()) return nullptr;
  struct Watch {
    steady_clock::time_point next_look{};
    std::optional<steady_clock::time_point> free_since{};
    bool over = false;
  };
  return [lock, watch = Watch()]() mutable {
    const auto now = steady_clock::now();
    if (watch.over || now < watch.next_look) return watch.over;
    watch.next_look = now + kLookAtLock;
    if (FileLock::is_held(lock)) {
      watch.free_since.reset();
    } else if (!watch.free_since) {
      watch.free_since = now;
    }
    watch.over = watch.free_since && now - *watch.free_since >= kPatienceWithLock;
    return watch.over;
  };
}

}  // namespace

Status write_supervision(const elastic::LaunchOptions& options, std::int64_t first_target,
                         const std::string& ends_with) {
  json settings = elastic::to_json(options.settings);
  settings["command"] = options.command;
  const json order = {
      {"settings", std::move(settings)}, {"processes", elastic::to_json(options.processes)},
      {"node", options.node.name},       {"listen", options.node.listen},
      {"founds", options.founds},        {"ends_with", ends_with},
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
  const std::string node = text_of(order, "node");
  const std::string listen = text_of(order, "listen");
  if (!node.empty() && !elastic::is_node_name(node)) {
    return invalid_input(fmt::format("{}: node: '{}' is no name of a node", path, node));
  }
  const std::string ends_with = text_of(order, "ends_with");
  Supervision supervision{.options = {.folder = folder,
                                      .settings = *settings,
                                      .workers = settings->first_workers,
                                      .command = settings->command,
                                      .node = {.name = node.empty() ? "local" : node,
                                               .listen = listen.empty() ? "127.0.0.1" : listen},
                                      .anywhere = true,
                                      .founds = order.value("founds", false),
                                      .quiet = true,
                                      .keep_target = true,
                                      .listed = false,
                                      .abandoned = nullptr,
                                      .processes = std::move(*processes)},
                          .first_target = order["first_target"].get<std::int64_t>()};
  supervision.options.abandoned = when_released(ends_with);
  return supervision;
}

bool is_supervised(const std::string& folder) { return FileLock::is_held(supervisor_lock(folder)); }
bool has_workers(const std::string& folder) {
  return FileLock::is_held(workers_lock(folder)) || is_in_unit(folder);
}

bool signal_supervisor(const std::string& folder, int signal) {
  const std::optional<ProcessId> process = supervisor_of(folder);
  return process && is_supervised(folder) && send_signal(*process, signal, user_of_job(folder));
}

int kill_supervised(const std::string& folder) {
  kill_units(folder);
  const uid_t user = user_of_job(folder);
  int found = 0;
  // Found by their command line: the job may have removed the lock that names its supervisor.
  for (const ProcessInfo& process : list_processes()) {
    if (process.zombie || process.id.pid == getpid()) continue;
    if (!is_called(process.id.pid, "supervise", folder)) continue;
    ++found;
    // A stopped supervisor starts nothing, and what loses its parent becomes its child, so nothing
    // escapes. It dies last, or not yet if there was not enough time.
    if (send_signal(process.id, SIGSTOP, user) &&
        kill_descendants(process.id, user, kPatienceWithTree)) {
      send_signal(process.id, SIGKILL, user);
    }
  }
  return found + kill_what_is_left(folder);
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
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // this process gets what workers leave behind
  write_to_log(folder);
  name_supervisor(*lock);
  lock->keep();
  take_workers_lock(folder);
  const Result<Supervision> order = read_supervision(folder);
  Error problem;
  if (order.ok()) {
    const bool opaque = order->options.settings.program == elastic::ProgramKind::kOpaque;
    const bool share = elastic::is_spread(order->options.settings);
    const Result<elastic::LaunchResult> result = opaque  ? elastic::run_opaque(order->options)
                                                 : share ? elastic::launch_share(order->options)
                                                         : elastic::launch(order->options);
    end_descendants();          // whatever workers left behind, before the job's devices are free
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
