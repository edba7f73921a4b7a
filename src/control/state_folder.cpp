#include "control/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/text.h"

namespace rubato::control {

namespace {

constexpr const char* kLockFile = "/rubato.lock";

constexpr const char* kAdvice = "; use another folder with --state DIR ('rubato doctor' checks it)";

Error system_error(const std::string& path, std::string_view doing) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, doing, std::strerror(errno))};
}

// A daemon that was killed while it started a child leaves the lock to that child until the child
// executes its program, which takes long only on a busy machine.
constexpr auto kTimeToExec = std::chrono::seconds(10);
constexpr auto kRetry = std::chrono::milliseconds(10);

// The process that wrote its id into the lock file.
std::optional<std::int64_t> owner_of(int file) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(file, text.data(), text.size() - 1, 0);
  return parse_int(trim({text.data(), size > 0 ? static_cast<std::size_t>(size) : 0}));
}

Status make_private_folder(const std::string& folder) {
  if (!is_directory(folder)) {
    const std::size_t slash = folder.find_last_of('/');
    if (slash != std::string::npos && slash > 0) {
      if (auto status = make_directories(folder.substr(0, slash)); !status) return status;
    }
    if (::mkdir(folder.c_str(), 0700) != 0) return system_error(folder, "create");
    return ok_status();
  }
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return system_error(folder, "examine");
  if ((info.st_mode & 077U) == 0) return ok_status();
  const auto names = list_directory(folder);
  if (!names) return names.error();
  if (!names->empty() && !is_file(folder + kLockFile)) {
    return invalid_input(fmt::format(
        "{}: other users can read this folder, and it contains files that are not the daemon's; "
        "use another folder, or make it private with chmod 700",
        folder));
  }
  if (::chmod(folder.c_str(), 0700) != 0) return system_error(folder, "make private");
  return ok_status();
}

}  // namespace

std::string default_state_folder() {
  if (const char* given = std::getenv("RUBATO_STATE")) return given;
  if (geteuid() == 0) return "/var/lib/rubato";
  if (const char* base = std::getenv("XDG_STATE_HOME")) return std::string(base) + "/rubato";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/state/rubato";
}

Result<FolderLock> FolderLock::take(const std::string& folder) {
  const auto with_advice = [](Error error) {
    if (error.code == ErrorCode::kIo) error.message += kAdvice;
    return error;
  };
  if (auto status = make_private_folder(folder); !status) return with_advice(status.error());
  const std::string path = folder + kLockFile;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return with_advice(system_error(path, "open"));
  FolderLock lock(file);
  const auto deadline = std::chrono::steady_clock::now() + kTimeToExec;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(path, "lock");
    const auto pid = owner_of(file);
    const bool died = pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
    if (!died || std::chrono::steady_clock::now() > deadline) {
      return Error{ErrorCode::kIo, fmt::format("{}: another rubatod{} is using this folder", folder,
                                               pid ? fmt::format(" (process {})", *pid) : "")};
    }
    std::this_thread::sleep_for(kRetry);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // Written over what is there: on a full disk there may be no room for a new block.
  if (::pwrite(file, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()) ||
      ::ftruncate(file, static_cast<off_t>(pid.size())) != 0) {
    return system_error(path, "write");
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

Status make_private_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return system_error(path, "open");
  const bool done = ::fchmod(file, 0600) == 0;
  const Error error = system_error(path, "make private");
  ::close(file);
  return done ? ok_status() : Status(error);
}

}  // namespace rubato::control
