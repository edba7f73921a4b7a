#include "control/job_registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "control/job_files.h"
#include "control/job_schemas.h"

namespace rubato::control {

namespace {

using elastic::Descriptor;

constexpr const char* kRegistry = "registry";
constexpr std::int64_t kMostVersions = std::int64_t{1} << 40;

std::string file_of(const std::string& name, std::int64_t version) {
  return fmt::format("{}.{}", name, version);
}

bool exists_in(const Descriptor& folder, const std::string& file) {
  struct stat status {};
  return fstatat(folder.get(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

// Versions are consecutive, so doubling and halving finds the newest (elastic/job/registry.cpp). If
// they are not, it finds some version, after as many looks.
std::int64_t newest_in(const Descriptor& folder, const std::string& name) {
  const auto exists = [&](std::int64_t version) {
    return exists_in(folder, file_of(name, version));
  };
  if (!exists(1)) return 0;
  std::int64_t low = 1;
  while (low < kMostVersions && exists(low * 2)) low *= 2;
  std::int64_t high = low * 2;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (exists(middle) ? low : high) = middle;
  }
  return low;
}

// An I/O error of a missing registry would be retried for ever.
Error without_registry(const Error& error) {
  if (error.code != ErrorCode::kNotFound) return error;
  return invalid_input(error.message + "; expected the job's registry");
}

}  // namespace

Result<std::unique_ptr<JobRegistry>> JobRegistry::create(const std::string& folder) {
  const std::string path = folder + "/" + kRegistry;
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return Error{ErrorCode::kIo, fmt::format("{}: cannot create: {}", path, std::strerror(errno))};
  }
  const Result<Descriptor> opened = open_job_folder(folder, kRegistry);
  if (!opened.ok()) return without_registry(opened.error());
  return std::make_unique<JobRegistry>(folder);
}

Result<std::string> JobRegistry::read(const std::string& name, std::int64_t version) const {
  const std::string file = fmt::format("{}/{}", kRegistry, file_of(name, version));
  Result<std::string> text = read_job_file(folder_, file, kMostRecordBytes);
  if (!text.ok()) return text;
  const nlohmann::json value = parse_untrusted(*text);
  const std::string problem =
      value.is_discarded() ? "not JSON, or nested too deeply" : record_problem(name, value);
  if (!problem.empty()) return invalid_input(fmt::format("{}/{}: {}", folder_, file, problem));
  return text;
}

Result<elastic::Record> JobRegistry::get(const std::string& name) {
  const Result<Descriptor> folder = open_job_folder(folder_, kRegistry);
  if (!folder.ok()) return without_registry(folder.error());
  const std::int64_t version = newest_in(*folder, name);
  if (version == 0) return elastic::Record{};
  Result<std::string> value = read(name, version);
  if (!value.ok()) return without_registry(value.error());
  return elastic::Record{version, std::move(*value)};
}

Result<std::optional<std::string>> JobRegistry::at(const std::string& name, std::int64_t version) {
  Result<std::string> value = read(name, version);
  if (value.ok()) return std::optional<std::string>(std::move(*value));
  if (value.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return value.error();
}

Result<bool> JobRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                           const std::string& value) {
  const Result<Descriptor> folder = open_job_folder(folder_, kRegistry);
  if (!folder.ok()) return without_registry(folder.error());
  if (expected > 0 && !exists_in(*folder, file_of(name, expected))) return false;
  const std::string draft = elastic::registry_draft_name();
  const Descriptor file(openat(folder->get(), draft.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const auto failed = [&](const char* what, int code) {
    if (file.valid()) unlinkat(folder->get(), draft.c_str(), 0);
    return Error{ErrorCode::kIo, fmt::format("{}/{}/{}: {}: {}", folder_, kRegistry, draft, what,
                                             std::strerror(code))};
  };
  if (!file.valid()) return failed("cannot create", errno);
  for (std::size_t written = 0; written < value.size();) {
    const ssize_t n = write(file.get(), value.data() + written, value.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("cannot write", errno);
    written += static_cast<std::size_t>(n);
  }
  const int linked =
      linkat(folder->get(), draft.c_str(), folder->get(), file_of(name, expected + 1).c_str(), 0);
  const int code = errno;
  struct stat status {};
  const bool won = linked == 0 || (fstat(file.get(), &status) == 0 && status.st_nlink == 2);
  if (!won && code != EEXIST) return failed("cannot publish", code);
  unlinkat(folder->get(), draft.c_str(), 0);
  return won;
}

}  // namespace rubato::control
