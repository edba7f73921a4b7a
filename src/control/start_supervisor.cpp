#include "control/start_supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "control/job_unit.h"

namespace rubato::control {

namespace {

constexpr std::array<std::string_view, 12> kInherited{
    "PATH", "HOME",     "USER",   "LOGNAME",         "SHELL",         "LANG",
    "TZ",   "LANGUAGE", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"};
constexpr std::array<std::string_view, 4> kOfTheUser{"HOME", "USER", "LOGNAME", "SHELL"};
constexpr std::array<std::string_view, 14> kInheritedPrefixes{
    "LC_",       "CUDA_", "CUBLAS_", "NVIDIA_", "NCCL_",  "OMP_",  "MKL_",
    "OPENBLAS_", "KMP_",  "DNNL_",   "ASAN_",   "UBSAN_", "TSAN_", "LSAN_"};

// What the child needs between fork and exec, prepared beforehand: there it may only make system
// calls, because other threads of the daemon may have held locks when it was forked.
struct Launch {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const UnixUser* user = nullptr;
  int input = -1;
  int output = -1;
  int failure = -1;  // gets errno if the program cannot be started
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

bool become(const UnixUser& user) {
  return syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         syscall(SYS_setresgid, user.gid, user.gid, user.gid) == 0 &&
         syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0;
}

[[noreturn]] void run_child(const Launch& launch) {
  const auto fail = [&] {
    const int code = errno;
    static_cast<void>(write(launch.failure, &code, sizeof code) + 1);
    _exit(127);
  };
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &normal, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  if (dup2(launch.input, STDIN_FILENO) < 0 || dup2(launch.output, STDOUT_FILENO) < 0 ||
      dup2(launch.output, STDERR_FILENO) < 0) {
    fail();
  }
  // Everything else closes at exec, also what was opened without O_CLOEXEC.
  syscall(SYS_close_range, 3U, ~0U, 1U << 2);  // CLOSE_RANGE_CLOEXEC
  if (launch.user != nullptr) {
    umask(077);
    if (chdir("/") != 0 || !become(*launch.user)) fail();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  }
  execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  fail();
  _exit(127);
}

// Where the program is that a shell would run; `program` itself if it is a path or not found.
std::string found_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  if (program.find('/') != std::string::npos || path == nullptr) return program;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = fmt::format("{}/{}", rest.substr(0, end), program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return program;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace

std::vector<std::string> job_environment(const std::vector<std::string>& daemon,
                                         const std::optional<UnixUser>& user) {
  const auto contains = [](const auto& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> chosen;
  for (const std::string& entry : daemon) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    const bool prefixed =
        std::any_of(kInheritedPrefixes.begin(), kInheritedPrefixes.end(),
                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (!prefixed && !contains(kInherited, name)) continue;
    if (user && contains(kOfTheUser, name)) continue;
    chosen.push_back(entry);
  }
  if (user) {
    chosen.push_back("HOME=" + user->home);
    chosen.push_back("USER=" + user->name);
    chosen.push_back("LOGNAME=" + user->name);
    chosen.push_back("SHELL=" + user->shell);
  }
  return chosen;
}

Result<pid_t> start_supervisor(const std::string& program, const std::string& folder,
                               const Confinement& how) {
  std::vector<std::string> words = {found_in_path(program), "supervise", folder};
  std::vector<std::string> environment = job_environment(own_environment(), how.user);
  if (how.unit) words = unit_command(folder, how, std::move(words), std::exchange(environment, {}));
  const std::string log = folder + "/supervisor.log";
  Launch launch{.arguments = pointers(words),
                .environment = pointers(environment),
                .user = how.user && !how.unit ? &*how.user : nullptr};
  std::array<int, 2> failure{-1, -1};
  launch.input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  // The supervisor of a unit opens its log itself: systemd would open it with root's rights.
  launch.output =
      how.unit ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
               : ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool ready =
      launch.input >= 0 && launch.output >= 0 && pipe2(failure.data(), O_CLOEXEC) == 0;
  launch.failure = failure[1];
  int code = ready ? 0 : errno;
  pid_t pid = ready ? fork() : -1;
  if (pid == 0) run_child(launch);
  if (ready && pid < 0) code = errno;
  for (const int file : {launch.input, launch.output, failure[1]}) {
    if (file >= 0) close(file);
  }
  // Ends with the child's exec, or with the reason why there is none.
  if (pid > 0) {
    while (read(failure[0], &code, sizeof code) < 0 && errno == EINTR) {
    }
  }
  if (failure[0] >= 0) close(failure[0]);
  if (code == 0) return pid;
  if (pid > 0) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return Error{ErrorCode::kIo, fmt::format("cannot start {}: {}", words[0], std::strerror(code))};
}

}  // namespace rubato::control
