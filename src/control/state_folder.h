// The daemon's state folder. It is private and used by one daemon at a time.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace rubato::control {

// Where a daemon listens and keeps its state unless it is told otherwise: in $RUBATO_STATE, else in
// the system's folder for root, in the user's for everybody else.
inline constexpr const char* kDefaultListen = "127.0.0.1:7117";
std::string default_state_folder();

// Holds the lock of a folder until this object is destroyed or its process ends in any way.
class FolderLock {
 public:
  // Creates the folder (0700) if it does not exist. An existing folder that other users can list is
  // made private if it is empty or was the daemon's before; otherwise it is refused, because it
  // belongs to something else. Then takes the lock; it is an error if another process holds it.
  static Result<FolderLock> take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int file) : file_(file) {}
  int file_;
};

// Creates an empty file that only its owner may read, or makes an existing file private.
Status make_private_file(const std::string& path);

}  // namespace rubato::control
