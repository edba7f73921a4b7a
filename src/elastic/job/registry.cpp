#include "elastic/job/registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "base/file.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

namespace {

// A worker looks for several records at a time, and many workers ask the same server.
constexpr auto kRefreshInterval = std::chrono::milliseconds(20);

// With the rights that open() has. access() asks for the real user instead, who is root in a daemon
// that acts as a job's user.
bool is_there(const std::string& path) {
  return faccessat(AT_FDCWD, path.c_str(), F_OK, AT_EACCESS) == 0;
}

// Refuses what is no plain file, so that a pipe in place of a record makes nobody wait.
Result<std::string> read_record(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return invalid_input(path + ": not a plain file");
  }
  return read_file(path);
}

// Opened anew, because an NFS client asks the server for a file's attributes when it opens it, and
// may otherwise answer with those from before the link was made.
nlink_t links_of(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  return file.valid() && fstat(file.get(), &info) == 0 ? info.st_nlink : 0;
}

}  // namespace

std::string registry_draft_name() {
  static std::atomic<int> counter{0};
  static const std::string kProcess = [] {
    std::random_device random;  // of the system
    std::string name;
    for (int i = 0; i < 4; ++i) name += fmt::format("{:08x}", random());
    return name;
  }();
  // A forked process has the same random part.
  return fmt::format(".draft.{}.{}.{}", kProcess, getpid(), counter.fetch_add(1));
}

Result<std::unique_ptr<FileRegistry>> FileRegistry::open(const std::string& folder) {
  Status made = make_directories(folder);
  if (!made.ok()) return made.error();
  return std::make_unique<FileRegistry>(folder);
}

std::string FileRegistry::path(const std::string& name, std::int64_t version) const {
  return fmt::format("{}/{}.{}", folder_, name, version);
}

// Makes an NFS client ask the server whether the folder has changed. If it has, names that did not
// exist are looked up anew.
void FileRegistry::refresh() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto last = std::chrono::steady_clock::duration(refreshed_.exchange(now.count()));
  if (now - last < kRefreshInterval) {
    refreshed_ = last.count();
    return;
  }
  const Descriptor opened(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Versions are consecutive, so doubling and halving finds the newest.
std::int64_t FileRegistry::newest(const std::string& name) const {
  refresh();
  const auto exists = [&](std::int64_t version) { return is_there(path(name, version)); };
  if (!exists(1)) return 0;
  std::int64_t low = 1;
  while (low < std::int64_t{1} << 40 && exists(low * 2)) low *= 2;
  std::int64_t high = low * 2;  // does not exist, or did not a moment ago
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (exists(middle) ? low : high) = middle;
  }
  return low;
}

Result<Record> FileRegistry::get(const std::string& name) {
  const std::int64_t version = newest(name);
  if (version == 0) return Record{};
  Result<std::string> value = read_record(path(name, version));
  if (!value.ok()) return value.error();
  return Record{version, std::move(*value)};
}

Result<std::optional<std::string>> FileRegistry::at(const std::string& name, std::int64_t version) {
  const std::string file = path(name, version);
  if (!is_there(file)) {
    refresh();
    if (!is_there(file)) return std::optional<std::string>();
  }
  Result<std::string> value = read_record(file);
  if (!value.ok()) return value.error();
  return std::optional<std::string>(std::move(*value));
}

Result<bool> FileRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                            const std::string& value) {
  if (expected > 0 && !is_there(path(name, expected))) {
    refresh();
    if (!is_there(path(name, expected))) return false;
  }
  const std::string draft = folder_ + "/" + registry_draft_name();
  const std::string target = path(name, expected + 1);
  const int file =
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const auto failed = [](ErrorCode kind, const std::string& where, const char* what, int code) {
    return Error{kind, fmt::format("{}: {}: {}", where, what, std::strerror(code))};
  };
  if (file < 0) return failed(ErrorCode::kRefused, draft, "cannot create", errno);
  std::size_t written = 0;
  int problem = 0;
  while (written < value.size() && problem == 0) {
    const ssize_t n = write(file, value.data() + written, value.size() - written);
    if (n == 0 || (n < 0 && errno != EINTR)) problem = n == 0 ? EIO : errno;
    if (n > 0) written += static_cast<std::size_t>(n);
  }
  if (close(file) != 0 && problem == 0) problem = errno;  // NFS tells only now that a disk is full
  if (problem != 0) {
    unlink(draft.c_str());
    return failed(ErrorCode::kRefused, draft, "cannot write", problem);
  }
  const bool linked = link(draft.c_str(), target.c_str()) == 0;
  const int code = errno;
  const bool won = linked || links_of(draft) == 2;
  unlink(draft.c_str());
  if (!won && code != EEXIST) return failed(ErrorCode::kIo, target, "cannot publish", code);
  return won;
}

}  // namespace rubato::elastic
