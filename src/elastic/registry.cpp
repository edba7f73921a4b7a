#include "elastic/registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace rubato::elastic {

namespace {

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

}  // namespace

Result<std::unique_ptr<FileRegistry>> FileRegistry::open(const std::string& folder) {
  Status made = make_directories(folder);
  if (!made.ok()) return made.error();
  return std::unique_ptr<FileRegistry>(new FileRegistry(folder));
}

std::string FileRegistry::path(const std::string& name, std::int64_t version) const {
  return fmt::format("{}/{}.{}", folder_, name, version);
}

// Versions are consecutive, so doubling and halving finds the newest.
std::int64_t FileRegistry::newest(const std::string& name) const {
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
  if (!is_there(file)) return std::optional<std::string>();
  Result<std::string> value = read_record(file);
  if (!value.ok()) return value.error();
  return std::optional<std::string>(std::move(*value));
}

Result<bool> FileRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                            const std::string& value) {
  static std::atomic<int> counter{0};
  if (expected > 0 && !is_there(path(name, expected))) return false;
  const std::string draft = fmt::format("{}/.draft.{}.{}", folder_, getpid(), counter.fetch_add(1));
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto failed = [&](const char* what) {
    return Error{ErrorCode::kIo, fmt::format("{}: {}: {}", draft, what, std::strerror(errno))};
  };
  if (file < 0) return failed("cannot create");
  std::size_t written = 0;
  while (written < value.size()) {
    const ssize_t n = write(file, value.data() + written, value.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const Error error = failed("cannot write");
      close(file);
      unlink(draft.c_str());
      return error;
    }
    written += static_cast<std::size_t>(n);
  }
  close(file);
  const int linked = link(draft.c_str(), path(name, expected + 1).c_str());
  const int code = errno;
  unlink(draft.c_str());
  if (linked == 0) return true;
  if (code == EEXIST) return false;
  return Error{ErrorCode::kIo, fmt::format("{}: cannot publish: {}", path(name, expected + 1),
                                           std::strerror(code))};
}

}  // namespace rubato::elastic
