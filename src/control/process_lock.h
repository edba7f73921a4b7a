// Locks and signals for processes that outlive the daemon which started them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace rubato::control {

// An exclusive lock on a file, held as long as any process has the open file: the one that took it
// and, when it is inheritable, all that this one starts. The kernel lets go of it when the last of
// them has ended, however that happened; nothing about it can be stale.
class FileLock {
 public:
  enum class Children { kInherit, kDoNotInherit };
  // Nothing when another has it, or the file cannot be opened. Makes the file.
  static std::optional<FileLock> try_take(const std::string& path, Children children);
  // Whether anybody has it; looking does not get in the way of somebody who takes it.
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
  // Nothing lets go of it before the end of the process.
  void keep() { file_ = -1; }

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_ = -1;
};

// A process, told from a later one with the same number by the moment when it was started.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t started = 0;  // clock ticks since the machine was
};
std::optional<ProcessId> identify(pid_t pid);  // nothing when there is none
// False when that process is gone.
bool send_signal(const ProcessId& process, int signal);
// Kills every process of this user, except the caller, that was started with this variable in its
// environment. Returns how many.
int kill_all_with(const std::string& variable, const std::string& value);

}  // namespace rubato::control
