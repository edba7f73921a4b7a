#include "elastic/launch/worker_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "elastic/worker/worker.h"

namespace rubato::elastic {

namespace {

constexpr int kLogsOfEndedWorkers = 32;
constexpr std::size_t kLongestLine = 500;
constexpr std::size_t kLongestOfSeveral = 200;

// The last `bytes` of a file, or all of it.
std::string tail(const std::string& path, std::int64_t bytes) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  struct stat status {};
  if (fstat(file, &status) == 0) {
    text.resize(static_cast<std::size_t>(std::min<std::int64_t>(bytes, status.st_size)));
    const off_t from = status.st_size - static_cast<off_t>(text.size());
    const ssize_t got = pread(file, text.data(), text.size(), from);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  close(file);
  return text;
}

void limit(decltype(RLIMIT_CORE) what, std::int64_t value) {
  rlimit now{};
  if (getrlimit(what, &now) != 0) return;
  now.rlim_max = std::min(now.rlim_max, static_cast<rlim_t>(value));
  now.rlim_cur = now.rlim_max;
  setrlimit(what, &now);
}

bool wants_warm_workers(const std::vector<std::pair<std::string, std::string>>& environment) {
  const char* const inherited = std::getenv(kWarmVariable);
  std::string value = inherited != nullptr ? inherited : "";
  for (const auto& [name, given] : environment) {
    if (name == kWarmVariable) value = given;
  }
  return value != "0";
}

}  // namespace

nlohmann::json to_json(const ProcessOptions& options) {
  return {{"directory", options.directory},
          {"environment", options.environment},
          {"environment_from", options.environment_from},
          {"device_variable", options.device_variable},
          {"core_files", options.core_files},
          {"most_files", options.most_files},
          {"most_memory_bytes", options.most_memory_bytes},
          {"log_bytes", options.log_bytes},
          {"log_files", options.log_files},
          {"term_after_s", options.term_after_s},
          {"kill_after_s", options.kill_after_s},
          {"retry_after_s", options.retry_after_s}};
}

Result<ProcessOptions> parse_process_options(const nlohmann::json& options,
                                             const std::string& where) {
  ProcessOptions parsed;
  try {
    options.at("directory").get_to(parsed.directory);
    options.at("environment").get_to(parsed.environment);
    if (const auto found = options.find("environment_from"); found != options.end()) {
      found->get_to(parsed.environment_from);  // earlier versions did not write it
    }
    options.at("device_variable").get_to(parsed.device_variable);
    options.at("core_files").get_to(parsed.core_files);
    options.at("most_files").get_to(parsed.most_files);
    options.at("most_memory_bytes").get_to(parsed.most_memory_bytes);
    options.at("log_bytes").get_to(parsed.log_bytes);
    options.at("log_files").get_to(parsed.log_files);
    options.at("term_after_s").get_to(parsed.term_after_s);
    options.at("kill_after_s").get_to(parsed.kill_after_s);
    parsed.retry_after_s = options.value("retry_after_s", parsed.retry_after_s);
  } catch (const nlohmann::json::exception& error) {
    return invalid_input(fmt::format("{}: {}", where, error.what()));
  }
  return parsed;
}

void WorkerProcesses::set_variable(const std::string& name, const std::string& value) {
  variables_[name] = value;
}

Result<WorkerProcesses::Variables> WorkerProcesses::variables_of(int worker,
                                                                 const std::string& device) const {
  Variables all = options_.environment;
  for (const auto& [name, path] : options_.environment_from) {
    Result<std::string> value = read_file(path);
    if (!value.ok()) {
      return Error{value.error().code, fmt::format("variable {}: {}", name, value.error().message)};
    }
    if (value->ends_with('\n')) value->pop_back();
    all.emplace_back(name, *value);
  }
  all.insert(all.end(), variables_.begin(), variables_.end());
  all.emplace_back(kJobFolderVariable, folder_.path());
  if (!ordinary_) all.emplace_back(kWorkerVariable, std::to_string(worker));
  if (!options_.device_variable.empty() && !device.empty()) {
    all.emplace_back(options_.device_variable, device);
  }
  return all;
}

void WorkerProcesses::become_worker(int worker, const std::string& device, pid_t launcher,
                                    int warm_offer) const {
  // Set at once, not when the program has loaded: a worker that outlived its launcher while loading
  // would otherwise join the next incarnation of the job.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(kWorkerExcluded);
  setpgid(0, 0);  // Ctrl-C reaches only the launcher, which stops the workers in an orderly way
  const std::string log = folder_.log_file(worker);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out >= 0) {
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
  }
  const Result<Variables> variables = variables_of(worker, device);
  if (!variables.ok()) {  // a missing secret ends the worker: its log says why
    dprintf(STDERR_FILENO, "rubato: %s\n", variables.error().message.c_str());
    _exit(127);
  }
  if (ordinary_) unsetenv(kWorkerVariable);  // this launcher may itself belong to a job
  unsetenv(kWarmVariable);
  for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), 1);
  if (warm_offer >= 0) {
    fcntl(warm_offer, F_SETFD, 0);
    setenv(kWarmVariable, fmt::format("{}:{}", warm_offer, launcher).c_str(), 1);
  }
  if (!options_.core_files) limit(RLIMIT_CORE, 0);
  if (options_.most_files > 0) limit(RLIMIT_NOFILE, options_.most_files);
  if (options_.most_memory_bytes > 0) limit(RLIMIT_AS, options_.most_memory_bytes);
  if (!options_.directory.empty() && chdir(options_.directory.c_str()) != 0) {
    dprintf(STDERR_FILENO, "rubato: cannot run in %s: %s\n", options_.directory.c_str(),
            std::strerror(errno));
    _exit(127);
  }
  std::vector<char*> arguments;
  for (const std::string& part : command_) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "rubato: cannot start %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

Status WorkerProcesses::start(int worker, const std::string& device) {
  remove_old_logs(worker);
  std::optional<pid_t> pid = fork_warm(worker, device);
  const bool warm = pid.has_value();
  if (!warm) pid = execute(worker, device);
  if (*pid < 0) {
    return Error{ErrorCode::kIo, fmt::format("cannot start a worker: {}", std::strerror(errno))};
  }
  setpgid(*pid, *pid);  // in both processes, because either may run first
  processes_.push_back({.worker = worker,
                        .pid = *pid,
                        .device = device,
                        .started = std::chrono::steady_clock::now(),
                        .warm = warm});
  return ok_status();
}

std::optional<pid_t> WorkerProcesses::fork_warm(int worker, const std::string& device) {
  if (ordinary_) return std::nullopt;
  Result<Variables> variables = variables_of(worker, device);
  if (!variables.ok()) return std::nullopt;
  return warm_parent_.start({std::move(*variables), folder_.log_file(worker)});
}

pid_t WorkerProcesses::execute(int worker, const std::string& device) {
  const bool offers = !ordinary_ && wants_warm_workers(options_.environment);
  const Descriptor offer = offers ? warm_parent_.offer() : Descriptor();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) become_worker(worker, device, launcher, offer.get());
  return pid;
}

std::vector<WorkerProcess>::iterator WorkerProcesses::find(pid_t pid) {
  return std::find_if(processes_.begin(), processes_.end(),
                      [&](const WorkerProcess& process) { return process.pid == pid; });
}

std::vector<WorkerProcesses::End> WorkerProcesses::reap() {
  std::vector<End> ends;
  for (;;) {
    // The pid must not be reused before its group has ended: look first, reap afterwards.
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return ends;
    const auto found = find(info.si_pid);
    if (found != processes_.end()) kill(-info.si_pid, SIGKILL);
    int status = 0;
    waitpid(info.si_pid, &status, 0);
    warm_parent_.note_end(info.si_pid);
    if (found == processes_.end()) continue;
    ends.push_back({*found, status});
    processes_.erase(found);
  }
}

void WorkerProcesses::send(int worker, int signal) {
  for (WorkerProcess& process : processes_) {
    if (process.worker != worker) continue;
    process.told_to_end = true;
    if (signal == SIGKILL) {
      send_to_group(process, signal);
    } else {
      kill(process.pid, signal);
    }
  }
}

void WorkerProcesses::send_to_group(const WorkerProcess& process, int signal) {
  if (kill(-process.pid, signal) != 0) kill(process.pid, signal);
}

bool WorkerProcesses::has_ended() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const WorkerProcess& process) {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  });
}

void WorkerProcesses::end_all() {
  for (const WorkerProcess& process : processes_) send_to_group(process, SIGKILL);
  for (const WorkerProcess& process : processes_) {
    int status = 0;
    while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  processes_.clear();
}

void WorkerProcesses::limit_logs() const {
  if (options_.log_bytes <= 0) return;
  for (const WorkerProcess& process : processes_) {
    const std::string log = folder_.log_file(process.worker);
    struct stat status {};
    if (stat(log.c_str(), &status) != 0 || status.st_size <= options_.log_bytes) continue;
    for (int number = options_.log_files; number > 1; --number) {
      std::rename(fmt::format("{}.{}", log, number - 1).c_str(),
                  fmt::format("{}.{}", log, number).c_str());
    }
    // The worker keeps writing to the same file (O_APPEND), so the content moves, not the name.
    if (options_.log_files > 0) {
      static_cast<void>(write_file(log + ".1", tail(log, options_.log_bytes)));
    }
    if (truncate(log.c_str(), 0) != 0) continue;
  }
}

void WorkerProcesses::remove_old_logs(int newest) const {
  const int old = newest - kLogsOfEndedWorkers;
  if (options_.log_bytes <= 0 || old < 0) return;
  const bool alive = std::any_of(processes_.begin(), processes_.end(),
                                 [&](const auto& process) { return process.worker == old; });
  if (alive) return;
  const std::string log = folder_.log_file(old);
  std::remove(log.c_str());
  for (int number = 1; number <= options_.log_files; ++number) {
    std::remove(fmt::format("{}.{}", log, number).c_str());
  }
}

std::string last_line(const std::string& path) {
  const std::string text = tail(path, 1 << 16);
  std::string_view rest = text;
  while (!rest.empty() && rest.back() == '\n') rest.remove_suffix(1);
  const std::size_t start = rest.rfind('\n');
  if (start != std::string_view::npos) rest.remove_prefix(start + 1);
  return std::string(rest.substr(0, kLongestLine));
}

std::string last_lines(const std::string& path, int count) {
  const std::string text = tail(path, 1 << 16);
  std::string_view rest = text;
  std::string lines;
  for (int found = 0; found < count && !rest.empty();) {
    const std::size_t start = rest.rfind('\n');
    std::string_view line = start == std::string_view::npos ? rest : rest.substr(start + 1);
    rest.remove_suffix(rest.size() - (start == std::string_view::npos ? 0 : start));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    line = line.substr(0, kLongestOfSeveral);
    lines.insert(0, fmt::format("  {}{}", line, found == 0 ? "" : "\n"));
    ++found;
  }
  return lines;
}

}  // namespace rubato::elastic
