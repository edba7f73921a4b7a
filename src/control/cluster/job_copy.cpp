#include "control/cluster/job_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "control/result_files.h"

namespace rubato::control {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPart = ".rubato-part";
constexpr std::size_t kLongestPath = 1000;
constexpr std::size_t kMostFiles = 100'000;
constexpr std::int64_t kLargestFile = std::int64_t{1} << 42;

Error failed(const std::string& path, const char* what) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

Status write_at(int file, const std::string& path, std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(file, bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(done));
    offset += done;
  }
  return ok_status();
}

Status check_space(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || static_cast<std::int64_t>(space.available) > kCopiesLeaveFree) return ok_status();
  return Error{
      ErrorCode::kIo,
      fmt::format("{}: the disk is almost full ({} MB free); files of jobs are taken again "
                  "when there is space",
                  folder, space.available / 1'000'000)};
}

struct stat status_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) status.st_size = 0;
  return status;
}

}  // namespace

Result<std::string> JobCopy::place_of(const std::string& path) const {
  const std::string_view problem = relative_path_problem(path);
  if (!problem.empty() || path.size() > kLongestPath) {
    return invalid_input(fmt::format("path: {}", problem.empty() ? "is too long" : problem));
  }
  // The first says whose folder it is, and must not be written by anybody else.
  if (path == "owner" || path.ends_with(kPart)) {
    return invalid_input(fmt::format("path: {} is not a file of the job", path));
  }
  return fmt::format("{}/{}", folder_, path);
}

Result<std::string> JobCopy::place_for(const std::string& path) const {
  Result<std::string> place = place_of(path);
  if (!place.ok()) return place;
  if (const Status space = check_space(folder_); !space.ok()) return space.error();
  if (const std::size_t slash = place->rfind('/'); slash > folder_.size()) {
    if (const Status made = make_directories(place->substr(0, slash)); !made.ok()) {
      return made.error();
    }
  }
  return place;
}

Result<std::vector<CopiedFile>> JobCopy::list() const {
  std::vector<CopiedFile> files;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder_, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (!entry->is_regular_file(gone) || gone) continue;
    const std::string path = entry->path().lexically_relative(folder_).string();
    struct stat status {};
    if (::stat(entry->path().c_str(), &status) != 0) continue;
    if (path == "owner" || path.ends_with(kPart)) continue;
    files.push_back({.path = path,
                     .size = status.st_size,
                     .modified_us = std::int64_t{1'000'000} * status.st_mtim.tv_sec +
                                    status.st_mtim.tv_nsec / 1000});
    if (files.size() > kMostFiles) {
      return invalid_input(fmt::format("{}: has more than {} files", folder_, kMostFiles));
    }
  }
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", folder_, error.message())};
  std::sort(files.begin(), files.end(),
            [](const CopiedFile& a, const CopiedFile& b) { return a.path < b.path; });
  return files;
}

Result<elastic::Descriptor> JobCopy::open(const std::string& path) const {
  const Result<std::string> place = place_of(path);
  if (!place.ok()) return place.error();
  elastic::Descriptor file(::open(place->c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.valid()) return file;
  if (errno != ENOENT && errno != ENOTDIR) return failed(*place, "open");
  return Error{ErrorCode::kNotFound, fmt::format("no file {} in the copy", path)};
}

Status JobCopy::put(const std::string& path, std::int64_t total, std::int64_t offset,
                    std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (total < 0 || total > kLargestFile || offset < 0 || offset + count > total) {
    return invalid_input(
        fmt::format("{}: bytes {} to {} of {}", path, offset, offset + count, total));
  }
  const Result<std::string> place = place_for(path);
  if (!place.ok()) return place.error();
  const std::string part = *place + std::string(kPart);
  const int anew = offset == 0 ? O_TRUNC : 0;
  const elastic::Descriptor file(
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | anew, 0600));
  if (!file.valid()) return failed(part, "write");
  if (status_of(file.get()).st_size != offset) {
    return Error{ErrorCode::kRefused,
                 fmt::format("{}: bytes from {} on, but {} have come; begin anew", path, offset,
                             status_of(file.get()).st_size)};
  }
  Status written = write_at(file.get(), part, offset, bytes);
  if (!written.ok() || offset + count < total) return written;
  std::error_code error;
  fs::rename(part, *place, error);
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", *place, error.message())};
  return ok_status();
}

Status JobCopy::put_same(const std::string& path, std::int64_t total, std::int64_t offset,
                         std::int64_t count, const std::string& as) {
  if (count < 0 || count > kMostPartBytes || offset < 0) {
    return invalid_input(fmt::format("{}: {} bytes from {} on", path, count, offset));
  }
  const Result<elastic::Descriptor> source = open(as);
  if (!source.ok() && source.error().code != ErrorCode::kNotFound) return source.error();
  std::string bytes(static_cast<std::size_t>(count), '\0');
  const ssize_t got = source.ok() ? pread(source->get(), bytes.data(), bytes.size(), offset) : 0;
  if (got != count) {
    return Error{ErrorCode::kRefused,
                 fmt::format("{} does not have {} bytes from {} on; send them", as, count, offset)};
  }
  return put(path, total, offset, bytes);
}

Status JobCopy::append(const std::string& path, std::int64_t offset, std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (offset < 0 || offset + count > kLargestFile) {
    return invalid_input(fmt::format("{}: bytes from {} on", path, offset));
  }
  const Result<std::string> place = place_for(path);
  if (!place.ok()) return place.error();
  const elastic::Descriptor file(
      ::open(place->c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return failed(*place, "write");
  std::int64_t size = status_of(file.get()).st_size;
  if (offset - size > kMostPartBytes) {
    return invalid_input(fmt::format("{}: bytes from {} on, but it has {}", path, offset, size));
  }
  if (size < offset) {
    const std::string lines(static_cast<std::size_t>(offset - size), '\n');
    if (Status filled = write_at(file.get(), *place, size, lines); !filled.ok()) {
      return filled;
    }
    size = offset;
  }
  Status written = write_at(file.get(), *place, offset, bytes);
  if (!written.ok()) return written;
  if (size > offset + count && ftruncate(file.get(), offset + count) != 0) {
    return failed(*place, "shorten");
  }
  return ok_status();
}

Status JobCopy::remove(const std::string& path) {
  const Result<std::string> place = place_of(path);
  if (!place.ok()) return place.error();
  if (unlink(place->c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return ok_status();
  return failed(*place, "remove");
}

}  // namespace rubato::control
