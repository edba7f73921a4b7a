#include "control/process_tree.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <set>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/text.h"

namespace rubato::control {

namespace {

constexpr auto kBetweenPasses = std::chrono::milliseconds(2);

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// Calls `use` with every number that is the name of an entry.
template <typename Use>
void each_number(const std::string& path, const Use& use) {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
  if (!folder) return;
  while (const dirent* entry = readdir(folder.get())) {
    if (const auto number = parse_int(entry->d_name)) use(*number);
  }
}

bool has_variable(pid_t pid, const std::string& entry) {
  const Result<std::string> environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (!environment.ok()) return false;
  for (const std::string_view variable : split(*environment, '\0')) {
    if (variable == entry) return true;
  }
  return false;
}

// Whether the process holds a lock on this file. A process that merely looks at it has no lock.
bool holds_lock(pid_t pid, const struct stat& file) {
  bool found = false;
  each_number(fmt::format("/proc/{}/fd", pid), [&](std::int64_t descriptor) {
    struct stat open_file {};
    if (found || stat(fmt::format("/proc/{}/fd/{}", pid, descriptor).c_str(), &open_file) != 0 ||
        open_file.st_dev != file.st_dev || open_file.st_ino != file.st_ino) {
      return;
    }
    const auto details = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, descriptor));
    found = details.ok() && details->find("\nlock:") != std::string::npos;
  });
  return found;
}

}  // namespace

std::vector<ProcessInfo> list_processes() {
  std::vector<ProcessInfo> all;
  each_number("/proc", [&](std::int64_t pid) {
    const auto stat = read_process_stat(static_cast<pid_t>(pid));
    if (stat) all.push_back({stat->id, stat->parent, stat->state == 'Z' || stat->state == 'X'});
  });
  return all;
}

std::vector<ProcessId> descendants_of(pid_t ancestor, const std::vector<ProcessInfo>& all) {
  // /proc is not read at one moment: a process may be listed before its parent, so repeat until
  // nothing is added.
  std::set<pid_t> family{ancestor};
  std::vector<ProcessId> found;
  for (std::size_t before = 0; before != family.size();) {
    before = family.size();
    for (const ProcessInfo& process : all) {
      if (!family.contains(process.parent) || !family.insert(process.id.pid).second) continue;
      if (!process.zombie) found.push_back(process.id);
    }
  }
  return found;
}

bool kill_descendants(const ProcessId& ancestor, uid_t user, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::optional<ProcessId> now = identify(ancestor.pid);
    if (!now || now->started != ancestor.started) return true;
    bool any = false;
    for (const ProcessId& process : descendants_of(ancestor.pid, list_processes())) {
      any = send_signal(process, SIGKILL, user) || any;
    }
    if (!any) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kBetweenPasses);
  }
}

void end_descendants() {
  for (;;) {
    for (const ProcessId& process : descendants_of(getpid(), list_processes())) {
      send_signal(process, SIGKILL);
    }
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    std::this_thread::sleep_for(kBetweenPasses);
  }
}

int kill_leftovers(const std::string& variable, const std::string& lock, uid_t user) {
  struct stat file {};
  const bool has_file = stat(lock.c_str(), &file) == 0;
  int killed = 0;
  each_number("/proc", [&](std::int64_t number) {
    const auto pid = static_cast<pid_t>(number);
    if (pid == getpid()) return;
    const std::optional<ProcessId> process = identify(pid);
    if (!process) return;
    if (!has_variable(pid, variable) && !(has_file && holds_lock(pid, file))) return;
    if (send_signal(*process, SIGKILL, user)) ++killed;
  });
  return killed;
}

}  // namespace rubato::control
