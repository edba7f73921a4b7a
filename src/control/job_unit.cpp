#include "control/job_unit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "control/process_lock.h"

namespace rubato::control {

namespace {

constexpr const char* kSlice = "rubato.slice";
// Where the groups of systemd's services are: control groups v2; v1; both side by side.
constexpr std::array<const char*, 3> kGroupRoots{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd",
                                                 "/sys/fs/cgroup/unified"};
// Passes over the processes of a group without cgroup.kill. One is enough unless the job forks.
constexpr int kPasses = 20;
constexpr double kStopSeconds = 30;  // for a checkpoint when the machine shuts down

// "rubato-j12-0a1b2c3d-": the part that all services of this job share. Two daemons of one machine
// have different folders.
std::string unit_prefix(const std::string& folder) {
  return fmt::format("rubato-j{}-{}-", std::filesystem::path(folder).filename().string(),
                     sha256_hex(folder).substr(0, 8));
}

std::vector<std::string> groups_of(const std::string& folder) {
  const std::string prefix = unit_prefix(folder);
  std::vector<std::string> groups;
  for (const char* root : kGroupRoots) {
    const std::string slice = fmt::format("{}/{}", root, kSlice);
    if (!is_directory(slice)) continue;
    const Result<std::vector<std::string>> names = list_directory(slice);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (name.starts_with(prefix)) groups.push_back(slice + "/" + name);
    }
  }
  return groups;
}

std::vector<pid_t> processes_in(const std::string& group) {
  std::vector<pid_t> found;
  const Result<std::string> text = read_file(group + "/cgroup.procs");
  if (!text.ok()) return found;
  for (const std::string_view line : split(*text, '\n')) {
    if (const auto pid = parse_int(line); pid && *pid > 0)
      found.push_back(static_cast<pid_t>(*pid));
  }
  return found;
}

bool kill_at_once(const std::string& group) {
  const AsUser rights = AsUser::daemon();  // the group is systemd's, not the job's
  const int file = ::open((group + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, "1", 1) == 1;
  close(file);
  return done;
}

void kill_group(const std::string& group) {
  if (kill_at_once(group)) return;
  const std::string name = std::filesystem::path(group).filename().string();
  for (int pass = 0; pass < kPasses; ++pass) {
    bool any = false;
    for (const pid_t pid : processes_in(group)) {
      // Still in the group after it was identified: the signal cannot reach another process.
      const std::optional<ProcessId> process = identify(pid);
      const Result<std::string> where = read_file(fmt::format("/proc/{}/cgroup", pid));
      if (!process || !where.ok() || where->find("/" + name) == std::string::npos) continue;
      any = send_signal(*process, SIGKILL) || any;
    }
    if (!any) return;
  }
}

}  // namespace

bool can_start_units() { return geteuid() == 0 && is_directory("/run/systemd/system"); }

std::vector<std::string> unit_command(const std::string& folder, const Confinement& how,
                                      std::vector<std::string> words,
                                      const std::vector<std::string>& environment) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::string unit =
      fmt::format("{}{}", unit_prefix(folder),
                  std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  std::vector<std::string> command = {"/usr/bin/systemd-run",
                                      "--system",
                                      "--quiet",
                                      "--collect",
                                      "--no-ask-password",
                                      "--unit=" + unit,
                                      fmt::format("--slice={}", kSlice),
                                      fmt::format("--description=Rubato job in {}", folder)};
  const auto property = [&](const std::string& setting) {
    command.push_back("--property=" + setting);
  };
  // The process that is started hands over to the supervisor and exits.
  command.emplace_back("--service-type=forking");
  if (how.user) {
    // As numbers, because the daemon may know users that systemd cannot look up.
    property(fmt::format("User={}", how.user->uid));
    property(fmt::format("Group={}", how.user->gid));
    std::string groups;
    for (const gid_t group : how.user->groups) {
      if (group != how.user->gid) groups += fmt::format("{} ", group);
    }
    if (!groups.empty()) property("SupplementaryGroups=" + groups);
  }
  property("NoNewPrivileges=yes");
  property("UMask=0077");
  // The supervisor alone is told to stop; what it leaves is killed.
  property("KillMode=mixed");
  property(fmt::format("TimeoutStopSec={}", kStopSeconds));
  // The supervisor survives a worker that needs too much memory and reports it.
  property("OOMPolicy=continue");
  property("LimitNOFILE=65536");
  property("StandardOutput=null");
  property("StandardError=null");
  if (how.memory_bytes > 0) {
    property(fmt::format("MemoryMax={}", how.memory_bytes));
    property("MemorySwapMax=0");
  }
  if (how.cpus > 0) property(fmt::format("CPUQuota={:.0f}%", how.cpus * 100));
  if (!how.gpus) property("DevicePolicy=closed");
  for (const std::string& variable : environment) command.push_back("--setenv=" + variable);
  command.emplace_back("--");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

bool is_in_unit(const std::string& folder) {
  for (const std::string& group : groups_of(folder)) {
    if (!processes_in(group).empty()) return true;
  }
  return false;
}

void kill_units(const std::string& folder) {
  for (const std::string& group : groups_of(folder)) kill_group(group);
}

}  // namespace rubato::control
