#include "elastic/job/checkpoint_place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace rubato::elastic {

namespace {

constexpr std::string_view kScheme = "file:";

Error failed(const std::string& path, const char* what) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

// Where the link leads; empty: it is none.
std::string target_of(const std::string& link) {
  std::error_code none;
  return std::filesystem::read_symlink(link, none).string();
}

Status make_folder(const std::string& path) {
  const std::string place = path.substr(0, path.rfind('/'));
  if (!is_directory(place)) {
    return Error{
        ErrorCode::kIo,
        fmt::format("{}: is not a folder on this machine; mount it, or choose another place "
                    "for the checkpoints",
                    place)};
  }
  if (mkdir(path.c_str(), 0700) != 0 && !(errno == EEXIST && is_directory(path))) {
    return failed(path, "create this folder for checkpoints");
  }
  return ok_status();
}

}  // namespace

Result<std::string> parse_checkpoint_place(const std::string& url) {
  if (url.starts_with(kScheme)) {
    const std::filesystem::path path(url.substr(kScheme.size()));
    std::string folder = path.lexically_normal().string();
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    if (path.is_absolute() && folder.size() > 1) return folder;
  }
  return invalid_input(fmt::format("'{}': expected file:/FOLDER", url));
}

Status link_checkpoints(const JobFolder& folder, const std::string& target) {
  const std::string link = folder.checkpoint_folder();
  const std::string before = target_of(link);
  if (target == before) return target.empty() ? ok_status() : make_folder(target);
  if (target.empty() || !before.empty()) {
    return invalid_input(
        fmt::format("{}: leads to {}; continue the job with the same place", link, before));
  }
  Status made = make_folder(target);
  if (!made.ok()) return made;
  if (rmdir(link.c_str()) != 0 && errno != ENOENT) {
    return invalid_input(
        fmt::format("{}: the job's checkpoints are in its folder; continue it without another "
                    "place, or move them to {}",
                    link, target));
  }
  if (symlink(target.c_str(), link.c_str()) != 0) return failed(link, "make this link");
  return ok_status();
}

std::string checkpoints_of(const JobFolder& folder) {
  std::string here = folder.checkpoint_folder();
  if (is_directory(here)) return here;
  Result<JobSettings> settings = folder.read_settings();
  return settings.ok() && !settings->checkpoints.empty() ? std::move(settings->checkpoints) : here;
}

}  // namespace rubato::elastic
