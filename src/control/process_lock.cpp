#include "control/process_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace rubato::control {

namespace {

// A job can replace the file by a link or a fifo.
constexpr int kCarefully = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

// These locks belong to the open file, not to the process like the older fcntl locks. They survive
// fork and exec, and closing another descriptor of the same file does not release them.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool has_variable(pid_t pid, const std::string& entry) {
  const Result<std::string> environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (!environment.ok()) return false;
  for (const std::string_view variable : split(*environment, '\0')) {
    if (variable == entry) return true;
  }
  return false;
}

}  // namespace

std::optional<FileLock> FileLock::try_take(const std::string& path, Children children) {
  const int cloexec = children == Children::kInherit ? 0 : O_CLOEXEC;
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | kCarefully | cloexec, 0600));
  struct flock all = whole_file(F_WRLCK);
  if (lock.file_ < 0 || fcntl(lock.file_, F_OFD_SETLK, &all) != 0) return std::nullopt;
  return lock;
}

bool FileLock::is_held(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | kCarefully | O_CLOEXEC);
  if (file < 0) return false;
  struct flock all = whole_file(F_WRLCK);
  const bool held = fcntl(file, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
  close(file);
  return held;
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

std::optional<ProcessId> identify(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return std::nullopt;
  // The second field is the program's name in parentheses, which can contain any character.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const auto fields = split(std::string_view(*stat).substr(name_end + 1), ' ');
  constexpr std::size_t kStartTime = 20;  // field 22 of the whole line
  if (fields.size() <= kStartTime) return std::nullopt;
  const std::optional<std::int64_t> started = parse_int(fields[kStartTime]);
  if (!started) return std::nullopt;
  return ProcessId{pid, static_cast<std::uint64_t>(*started)};
}

bool send_signal(const ProcessId& process, int signal) {
  if (process.pid <= 0) return false;
  // Uses the system call directly, because <sys/pidfd.h> of some C libraries does not work in C++.
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (handle < 0) return false;
  // The handle refers to the process that has this pid now. Checking the start time after opening
  // it rules out a reused pid.
  const std::optional<ProcessId> now = identify(process.pid);
  const bool sent = now && now->started == process.started &&
                    syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0) == 0;
  close(handle);
  return sent;
}

namespace {

int kill_all_that(const std::function<bool(pid_t)>& are_meant) {
  int killed = 0;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return 0;
  while (const dirent* found = readdir(folder)) {
    const std::optional<std::int64_t> number = parse_int(found->d_name);
    const auto pid = static_cast<pid_t>(number.value_or(0));
    if (pid <= 0 || pid == getpid() || !are_meant(pid)) continue;
    const std::optional<ProcessId> process = identify(pid);
    if (process && are_meant(pid) && send_signal(*process, SIGKILL)) ++killed;
  }
  closedir(folder);
  return killed;
}

}  // namespace

int kill_all_with(const std::string& variable, const std::string& value) {
  const std::string entry = variable + "=" + value;
  return kill_all_that([&](pid_t pid) { return has_variable(pid, entry); });
}

bool is_called(pid_t pid, const std::string& verb, const std::string& argument) {
  const Result<std::string> line = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!line.ok()) return false;
  const auto words = split(*line, '\0');
  return words.size() > 2 && words[1] == verb && words[2] == argument;
}

int kill_all_called_or_with(const std::string& verb, const std::string& argument,
                            const std::string& variable, const std::string& value) {
  const std::string entry = variable + "=" + value;
  return kill_all_that(
      [&](pid_t pid) { return is_called(pid, verb, argument) || has_variable(pid, entry); });
}

}  // namespace rubato::control
