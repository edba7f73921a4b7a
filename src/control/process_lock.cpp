#include "control/process_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
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

// The real user id of a process. /proc/PID/status tells it even of processes that hide the rest.
std::optional<uid_t> user_of(pid_t pid) {
  const Result<std::string> status = read_file(fmt::format("/proc/{}/status", pid));
  if (!status.ok()) return std::nullopt;
  const std::size_t line = status->find("\nUid:");
  if (line == std::string::npos) return std::nullopt;
  uid_t user = 0;
  if (std::sscanf(status->c_str() + line, "\nUid: %u", &user) != 1) return std::nullopt;
  return user;
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

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  const Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat.ok()) return std::nullopt;
  // The second field is the program's name in parentheses, which can contain any character.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const auto fields = split(std::string_view(*stat).substr(name_end + 1), ' ');
  constexpr std::size_t kState = 1;  // field 3 of the whole line
  constexpr std::size_t kParent = 2;
  constexpr std::size_t kStartTime = 20;
  if (fields.size() <= kStartTime || fields[kState].empty()) return std::nullopt;
  const std::optional<std::int64_t> parent = parse_int(fields[kParent]);
  const std::optional<std::int64_t> started = parse_int(fields[kStartTime]);
  if (!parent || !started) return std::nullopt;
  return ProcessStat{.id = {pid, static_cast<std::uint64_t>(*started)},
                     .parent = static_cast<pid_t>(*parent),
                     .state = fields[kState].front()};
}

std::optional<ProcessId> identify(pid_t pid) {
  const std::optional<ProcessStat> stat = read_process_stat(pid);
  if (!stat) return std::nullopt;
  return stat->id;
}

std::optional<ProcessId> read_process_id(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::array<char, 64> text{};
  struct stat info {};
  const bool plain = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t size = plain ? pread(file, text.data(), text.size() - 1, 0) : 0;
  close(file);
  ProcessId process;
  if (size <= 0 || std::sscanf(text.data(), "%d %lu", &process.pid, &process.started) != 2) {
    return std::nullopt;
  }
  return process;
}

bool send_signal(const ProcessId& process, int signal, std::optional<uid_t> user) {
  if (process.pid <= 0) return false;
  // Uses the system call directly, because <sys/pidfd.h> of some C libraries does not work in C++.
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (handle < 0) return false;
  // The handle refers to the process that has this pid now. Checking the start time and the user
  // after opening it rules out a reused pid.
  const std::optional<ProcessId> now = identify(process.pid);
  const bool meant =
      now && now->started == process.started && (!user || user_of(process.pid) == user);
  const bool sent = meant && syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0) == 0;
  close(handle);
  return sent;
}

bool is_called(pid_t pid, const std::string& verb, const std::string& argument) {
  const Result<std::string> line = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!line.ok()) return false;
  const auto words = split(*line, '\0');
  return words.size() > 2 && words[1] == verb && words[2] == argument;
}

}  // namespace rubato::control
