#include "cluster/hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/text.h"

namespace rubato::cluster {

namespace {

constexpr const char* kPrefix = "rubc";  // then the process id, '-', and the host

std::string& last_answer() {
  static std::string answer;
  return answer;
}

// Runs `ip` with these words; its answer is kept for why().
bool ip(const std::string& words) {
  FILE* const pipe = ::popen(fmt::format("ip {} 2>&1", words).c_str(), "r");
  if (pipe == nullptr) return false;
  std::string answer;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) answer += part;
  const bool done = ::pclose(pipe) == 0;
  if (!done) last_answer() = fmt::format("ip {}: {}", words, answer);
  return done;
}

std::string path_of(const std::string& space) { return "/run/netns/" + space; }

std::set<pid_t> processes_in(const std::string& space) {
  struct stat wanted {};
  std::set<pid_t> found;
  if (::stat(path_of(space).c_str(), &wanted) != 0) return found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_int(entry.path().filename().string());
    struct stat own {};
    if (!pid || ::stat((entry.path().string() + "/ns/net").c_str(), &own) != 0) continue;
    if (own.st_ino == wanted.st_ino && own.st_dev == wanted.st_dev && *pid != ::getpid()) {
      found.insert(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

void kill_all_in(const std::string& space) {
  // All stand still before the first one dies, so that nobody sees another one's end.
  std::set<pid_t> stopped;
  for (bool more = true; more;) {
    more = false;
    for (const pid_t pid : processes_in(space)) {
      if (stopped.insert(pid).second) more = ::kill(pid, SIGSTOP) == 0 || more;
    }
  }
  for (const pid_t pid : stopped) ::kill(pid, SIGKILL);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void remove(const std::string& space) {
  kill_all_in(space);
  ip("netns del " + space);
}

void remove_remains() {
  const auto names = list_directory("/run/netns");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix)) continue;
    const auto pid = parse_int(name.substr(4, name.find('-') - 4));
    if (pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) remove(name);
  }
}

}  // namespace

const std::string& Hosts::why() { return last_answer(); }

std::string Hosts::address(int host) { return fmt::format("10.78.0.{}", host + 1); }

std::optional<Hosts> Hosts::make(int count) {
  remove_remains();
  Hosts hosts(fmt::format("{}{}-", kPrefix, ::getpid()), count);
  const std::string hub = hosts.prefix_ + "s";
  bool made = ip("netns add " + hub) && ip(fmt::format("-n {} link add br0 type bridge", hub)) &&
              ip(fmt::format("-n {} link set br0 up", hub));
  for (int host = 0; made && host < count; ++host) {
    const std::string space = hosts.name(host);
    const std::string end = fmt::format("h{}", host);
    made =
        ip("netns add " + space) &&
        ip(fmt::format("link add {} netns {} type veth peer name v0 netns {}", end, hub, space)) &&
        ip(fmt::format("-n {} link set {} master br0 up", hub, end)) &&
        ip(fmt::format("-n {} addr add {}/24 dev v0", space, address(host))) &&
        ip(fmt::format("-n {} link set v0 up", space)) &&
        ip(fmt::format("-n {} link set lo up", space));
  }
  if (!made) return std::nullopt;
  return hosts;
}

Hosts::~Hosts() {
  if (count_ == 0) return;
  for (int host = 0; host < count_; ++host) remove(name(host));
  ip("netns del " + prefix_ + "s");
}

bool Hosts::enter(int host) const {
  const int space = ::open(path_of(name(host)).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = space >= 0 && ::setns(space, CLONE_NEWNET) == 0;
  if (space >= 0) ::close(space);
  return entered;
}

pid_t Hosts::start(int host, const std::vector<std::string>& command, const std::string& log,
                   const std::vector<std::string>& environment) const {
  std::vector<std::string> words = command;
  std::vector<char*> raw;
  raw.reserve(words.size() + 1);
  for (std::string& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  for (const std::string& setting : environment) {
    const std::size_t sign = setting.find('=');
    ::setenv(setting.substr(0, sign).c_str(), setting.substr(sign + 1).c_str(), 1);
  }
  if (!enter(host)) ::_exit(126);
  ::execv(raw[0], raw.data());
  ::_exit(127);
}

std::set<pid_t> Hosts::processes(int host) const { return processes_in(name(host)); }

void Hosts::kill_all(int host) const { kill_all_in(name(host)); }

void Hosts::signal_all(int host, int signal) const {
  for (const pid_t pid : processes(host)) ::kill(pid, signal);
}

void Hosts::set_cable(int host, bool up) const {
  ip(fmt::format("-n {}s link set h{} {}", prefix_, host, up ? "up" : "down"));
}

}  // namespace rubato::cluster
