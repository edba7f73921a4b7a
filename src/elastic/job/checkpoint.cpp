#include "elastic/job/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "elastic/job/checkpoint_file.h"

namespace rubato::elastic {

namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".rubato";
constexpr std::string_view kUnfinished = ".unfinished";  // then the writer's process id

// Padded, so that sorted names are in step order.
std::string name_of(std::int64_t step) { return fmt::format("{}{:012}{}", kPrefix, step, kSuffix); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  std::string_view digits = name.substr(kPrefix.size());
  digits.remove_suffix(std::min(digits.size(), kSuffix.size()));
  const auto step = parse_int(digits);
  // Accept only the spelling that we write: otherwise two files could have the same step.
  if (!step || *step < 0 || name_of(*step) != name) return std::nullopt;
  return step;
}

bool is_leftover(std::string_view name) {
  return name.starts_with(kPrefix) && name.find(kUnfinished) != std::string_view::npos;
}

Error io_error(const std::string& path, std::string_view doing, std::string_view advice) {
  return {ErrorCode::kIo,
          fmt::format("{}: cannot {}: {}; {}", path, doing, std::strerror(errno), advice)};
}

// Makes created and renamed entries of a folder durable.
Status sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "open the folder", "check its permissions");
  const int synced = ::fsync(fd);
  const int problem = errno;
  ::close(fd);
  if (synced == 0) return ok_status();
  errno = problem;
  return io_error(path, "sync the folder", "checkpoints there are not durable; check the disk");
}

}  // namespace

Result<CheckpointFolder> CheckpointFolder::open(std::string path, int keep) {
  RUBATO_CHECK(keep >= 1, "at least one checkpoint must be kept");
  if (!is_directory(path)) {
    const Status made = make_directories(path);
    if (!made) {
      return Error{made.error().code,
                   made.error().message + "; choose a writable folder for checkpoints"};
    }
    const std::string parent = std::filesystem::path(path).lexically_normal().parent_path();
    const Status synced = sync_folder(parent.empty() ? "." : parent);
    if (!synced) return synced.error();
  }
  const auto names = list_directory(path);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (!is_leftover(name)) continue;
    const std::string leftover = path + "/" + name;
    if (::unlink(leftover.c_str()) != 0 && errno != ENOENT) {
      return io_error(leftover, "remove this leftover of an interrupted write",
                      "make the folder writable");
    }
  }
  return CheckpointFolder(std::move(path), keep);
}

Status CheckpointFolder::write(const CheckpointParts& checkpoint) const {
  RUBATO_CHECK(checkpoint.step >= 0, "the step of a checkpoint must not be negative");
  const std::string target = path_ + "/" + name_of(checkpoint.step);
  const std::string beside = fmt::format("{}{}{}", target, kUnfinished, ::getpid());
  ::unlink(beside.c_str());  // left by an earlier process with the same id
  const Status written = write_checkpoint_file(beside, checkpoint);
  if (!written) {
    ::unlink(beside.c_str());
    return Error{
        written.error().code,
        fmt::format("{}: {}; the older checkpoints are intact; free some space or make the "
                    "folder writable",
                    target, written.error().message)};
  }
  if (::rename(beside.c_str(), target.c_str()) != 0) {
    Error error = io_error(target, "move the finished file to this name", "check the folder");
    ::unlink(beside.c_str());
    return error;
  }
  Status synced = sync_folder(path_);
  if (!synced) return synced;

  // One that cannot be deleted only takes up space; the new checkpoint is safe.
  const auto all = steps();
  if (!all) return ok_status();
  const auto newer = std::upper_bound(all->begin(), all->end(), checkpoint.step);
  for (auto it = all->begin(); newer - it > keep_; ++it) {
    ::unlink((path_ + "/" + name_of(*it)).c_str());
  }
  return ok_status();
}

Result<CheckpointFolder::Found> CheckpointFolder::load_newest(
    const std::string& description) const {
  auto newest_first = steps();
  if (!newest_first) return newest_first.error();
  std::reverse(newest_first->begin(), newest_first->end());
  Found found;
  for (const std::int64_t step : *newest_first) {
    const std::string path = path_ + "/" + name_of(step);
    bool belongs_elsewhere = false;
    auto loaded = read_checkpoint_file(path, step, description, &belongs_elsewhere);
    if (loaded) {
      found.newest = std::move(*loaded);
      break;
    }
    found.refused.push_back(path + ": " + loaded.error().message);
    if (belongs_elsewhere && found.of_another.empty()) found.of_another = found.refused.back();
  }
  return found;
}

Result<std::vector<std::int64_t>> CheckpointFolder::steps() const {
  const auto names = list_directory(path_);
  if (!names) return names.error();
  std::vector<std::int64_t> steps;
  for (const std::string& name : *names) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());  // beyond 12 digits, name order is not step order
  return steps;
}

}  // namespace rubato::elastic
