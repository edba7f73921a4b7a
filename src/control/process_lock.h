// Locks and signals for processes that outlive the daemon that started them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace rubato::control {

// An exclusive lock on a file. It is held as long as any process has the file open: the process
// that took it and, if the lock is inheritable, all processes that it starts. The kernel releases
// it when the last of them has ended, for whatever reason, so the lock can never be stale.
class FileLock {
 public:
  enum class Children { kInherit, kDoNotInherit };
  // Empty if another process holds the lock or the file cannot be opened. Creates the file.
  static std::optional<FileLock> try_take(const std::string& path, Children children);
  // Whether any process holds the lock. The check does not interfere with a process that takes it.
  static bool is_held(const std::string& path);

  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();
  int file() const { return file_; }
  // Keeps the lock until the process ends.
  void keep() { file_ = -1; }

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_ = -1;
};

// A process. The start time distinguishes it from a later process with the same pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks since boot
};
std::optional<ProcessId> identify(pid_t pid);  // empty if there is none
// False if the process is gone.
bool send_signal(const ProcessId& process, int signal);
// Kills every process of this user, except the caller, that was started with this variable in its
// environment. Returns the number of processes killed.
int kill_all_with(const std::string& variable, const std::string& value);
// Whether the process was started as `PROGRAM verb argument`.
bool is_called(pid_t pid, const std::string& verb, const std::string& argument);
// Kills every process that is called like this or has this variable in its environment, in one
// search.
int kill_all_called_or_with(const std::string& verb, const std::string& argument,
                            const std::string& variable, const std::string& value);

}  // namespace rubato::control
