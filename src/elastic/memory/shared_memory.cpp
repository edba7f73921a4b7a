#include "elastic/memory/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rubato::elastic {

namespace {

std::string advice(int code) {
  if (code != ENOSPC && code != ENOENT && code != EACCES && code != EROFS) return "";
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) != 0) {
    return "; this machine has no /dev/shm: run 'rubato doctor'";
  }
  if (code != ENOSPC) return "";
  return fmt::format(
      "; /dev/shm has {} kB free of {} kB: make it larger or use fewer workers ('rubato doctor' "
      "says how)",
      space.f_bavail * space.f_frsize / 1024, space.f_blocks * space.f_frsize / 1024);
}

Error shared_memory_error(const std::string& what, const std::string& name, int code) {
  return {ErrorCode::kIo, fmt::format("shared memory '{}': {}: {}{}", name, what,
                                      std::strerror(code), advice(code))};
}

}  // namespace

Result<Segment> Segment::create(const std::string& name, std::size_t bytes) {
  Segment segment;
  segment.file_ = shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (segment.file_ < 0) return shared_memory_error("cannot create", name, errno);
  segment.name_ = name;
  if (ftruncate(segment.file_, static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    remove_segment(name);
    return shared_memory_error(fmt::format("cannot set its size to {} bytes", bytes), name, code);
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.file_, 0);
  if (data == MAP_FAILED) {
    const int code = errno;
    remove_segment(name);
    return shared_memory_error("cannot map", name, code);
  }
  segment.data_ = static_cast<std::byte*>(data);
  segment.size_ = bytes;
  return segment;
}

Result<Segment> Segment::open(const std::string& name, Access access) {
  const bool writable = access == Access::kReadWrite;
  Segment segment;
  segment.file_ = shm_open(("/" + name).c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0600);
  if (segment.file_ < 0) return shared_memory_error("cannot open", name, errno);
  segment.name_ = name;
  struct stat status {};
  if (fstat(segment.file_, &status) != 0) return shared_memory_error("cannot stat", name, errno);
  // Anybody may create a segment of any name.
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return invalid_input(
        fmt::format("shared memory '{}': belongs to user {} with mode {:o}; expected one that only "
                    "user {} can write: another user may have created it",
                    name, status.st_uid, status.st_mode & 0777, geteuid()));
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* data = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                    segment.file_, 0);
  if (data == MAP_FAILED) return shared_memory_error("cannot map", name, errno);
  segment.data_ = static_cast<std::byte*>(data);
  segment.size_ = bytes;
  return segment;
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(file_, other.file_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

bool Segment::try_lock() const { return flock(file_, LOCK_EX | LOCK_NB) == 0; }

Status Segment::reserve(std::size_t offset, std::size_t bytes) const {
  const int code = posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (code != 0) {
    return shared_memory_error(fmt::format("cannot reserve {} bytes", bytes), name_, code);
  }
  return ok_status();
}

void remove_segment(const std::string& name) { shm_unlink(("/" + name).c_str()); }

int remove_segments(const std::string& prefix) {
  int removed = 0;
  DIR* folder = opendir("/dev/shm");
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    if (shm_unlink(fmt::format("/{}", entry->d_name).c_str()) == 0) ++removed;
  }
  closedir(folder);
  return removed;
}

// The words are shared between processes, so process-private futexes would not work.
void wait_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                  std::chrono::microseconds at_most) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  const timespec time{.tv_sec = at_most.count() / 1'000'000,
                      .tv_nsec = (at_most.count() % 1'000'000) * 1000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all_on_word(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace rubato::elastic
