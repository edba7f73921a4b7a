#include "control/isolation.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "control/job_unit.h"
#include "control/local_executor.h"

namespace rubato::control {

namespace {

constexpr mode_t kEnterOnly = 0711;

Error folder_error(const std::string& folder, std::string_view doing) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", folder, doing, std::strerror(errno))};
}

// The owner of an existing folder that the daemon gave away.
std::optional<uid_t> owner_of_folder(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return std::nullopt;
  return info.st_uid;
}

Error no_user() {
  return {ErrorCode::kRefused,
          "the job has no unix user to run as; submit it again (an administrator gives its tenant "
          "one: rubato tenants set TENANT --user NAME)"};
}

}  // namespace

Result<Isolation> choose_isolation(const std::string& given) {
  const bool root = geteuid() == 0;
  if (given == "none" || (given.empty() && !root)) return Isolation{};
  if (given.empty()) {
    return Error{ErrorCode::kRefused,
                 "started as root, where every job would have root's rights; say who runs jobs: "
                 "--isolation user (each job as the unix user of its submitter), or --isolation "
                 "none (all as root: only where everybody who submits may be root, such as in a "
                 "container of your own)"};
  }
  if (given != "user") {
    return invalid_input(fmt::format("--isolation {}: expected user or none", given));
  }
  if (!root) {
    return Error{
        ErrorCode::kRefused,
        "--isolation user: only root can run jobs as other users; start rubatod as root "
        "(the packaged service does), or leave the option out to run all jobs as yourself"};
  }
  return Isolation{.users = true, .units = can_start_units()};
}

Status check_limits(const Isolation& isolation, const JobDocument& document) {
  if (isolation.units) return ok_status();
  const char* field = document.memory_bytes > 0 ? "memory" : document.cpus > 0 ? "cpus" : nullptr;
  if (field == nullptr) return ok_status();
  return Error{ErrorCode::kRefused,
               fmt::format("{}: this daemon cannot limit it; that needs a rubatod with --isolation "
                           "user on a machine with systemd; leave the field out",
                           field)};
}

Status give_folder(const Isolation& isolation, const std::string& folder,
                   const JobDocument& document) {
  if (!isolation.users) return ok_status();
  const std::optional<uid_t> owner = owner_of_folder(folder);
  // Jobs of versions that had no users keep the owner of their folder.
  if (document.user.empty()) {
    return owner && *owner != 0 ? ok_status() : Status(no_user());
  }
  const Result<UnixUser> user = find_unix_user(document.user);
  if (!user.ok()) return user.error();
  if (owner == user->uid) return ok_status();
  if (owner && *owner != geteuid()) {
    return Error{ErrorCode::kRefused,
                 fmt::format("{} belongs to user {}, but the job runs as {}; submit it again",
                             folder, unix_user_name(*owner), user->name)};
  }
  if (!owner && mkdir(folder.c_str(), 0700) != 0) return folder_error(folder, "create");
  if (chmod(folder.c_str(), 0700) != 0) return folder_error(folder, "make private");
  if (lchown(folder.c_str(), user->uid, user->gid) != 0) {
    return folder_error(folder, "give it to " + user->name);
  }
  return ok_status();
}

Result<Confinement> confinement_of(const Isolation& isolation, const JobDocument& document,
                                   const Machine& machine, const std::string& folder) {
  Confinement how{.unit = isolation.units,
                  .memory_bytes = document.memory_bytes,
                  .cpus = document.cpus,
                  .gpus = !machine.visible.empty()};
  if (!isolation.users) return how;
  const std::optional<uid_t> owner = owner_of_folder(folder);
  if (!owner || *owner == 0) return no_user();
  Result<UnixUser> user = find_unix_user(std::to_string(*owner));
  if (!user.ok()) return user.error();
  how.user = std::move(*user);
  return how;
}

Status open_way_to(const Isolation& isolation, const std::string& jobs) {
  if (!isolation.users) {
    if (chmod(jobs.c_str(), 0700) != 0) return folder_error(jobs, "make the folder private");
    return ok_status();
  }
  const std::filesystem::path state = std::filesystem::path(jobs).parent_path();
  for (const std::string& folder : {jobs, state.string()}) {
    struct stat info {};
    if (lstat(folder.c_str(), &info) != 0) return folder_error(folder, "examine");
    if (info.st_uid != geteuid()) {
      return Error{
          ErrorCode::kRefused,
          fmt::format("{}: belongs to user {}, who could replace the daemon's files; chown "
                      "root it",
                      folder, unix_user_name(info.st_uid))};
    }
    if (chmod(folder.c_str(), kEnterOnly) != 0) return folder_error(folder, "open for users");
  }
  for (std::filesystem::path above = state.parent_path(); above.has_relative_path();
       above = above.parent_path()) {
    struct stat info {};
    if (stat(above.c_str(), &info) != 0) return folder_error(above.string(), "examine");
    if ((info.st_mode & S_IXOTH) == 0) {
      return Error{
          ErrorCode::kRefused,
          fmt::format("{}: users of jobs cannot enter this folder, and their jobs' folders "
                      "are below it; use another folder with --state DIR",
                      above.string())};
    }
  }
  return ok_status();
}

}  // namespace rubato::control
