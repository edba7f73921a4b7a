#include "control/as_user.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/text.h"

namespace rubato::control {

namespace {

// To go on with the wrong rights would be worse than to end. The jobs continue.
[[noreturn]] void cannot_switch(const char* what) {
  std::fprintf(stderr, "rubatod: cannot %s; the daemon ends, its jobs continue\n", what);
  std::abort();
}

// The library's setgroups() changes all threads of the process, the system call only this one.
void set_thread_groups(const std::vector<gid_t>& groups) {
  if (syscall(SYS_setgroups, groups.size(), groups.data()) != 0) cannot_switch("change groups");
}

std::optional<UnixUser> known_user(const std::string& name, std::optional<uid_t> number) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  const int code = number ? getpwuid_r(*number, &entry, buffer.data(), buffer.size(), &found)
                          : getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (code != 0 || found == nullptr) return std::nullopt;
  UnixUser user{.name = entry.pw_name,
                .uid = entry.pw_uid,
                .gid = entry.pw_gid,
                .home = entry.pw_dir,
                .shell = entry.pw_shell};
  user.groups.resize(64);
  for (int count = 64; getgrouplist(entry.pw_name, entry.pw_gid, user.groups.data(), &count) < 0;) {
    user.groups.resize(static_cast<std::size_t>(count));
  }
  int count = static_cast<int>(user.groups.size());
  getgrouplist(entry.pw_name, entry.pw_gid, user.groups.data(), &count);
  user.groups.resize(static_cast<std::size_t>(count));
  return user;
}

}  // namespace

Result<UnixUser> find_unix_user(const std::string& name) {
  std::optional<UnixUser> user = known_user(name, std::nullopt);
  if (!user) {
    const std::optional<std::int64_t> number = parse_int(name);
    if (!number || *number < 0 || *number >= std::numeric_limits<uid_t>::max()) {
      return Error{ErrorCode::kNotFound, fmt::format("this machine has no user '{}'", name)};
    }
    const auto id = static_cast<uid_t>(*number);
    user = known_user(name, id);
    if (!user) user = UnixUser{.name = name, .uid = id, .gid = id, .groups = {id}};
  }
  if (user->uid == 0) {
    return Error{ErrorCode::kRefused,
                 fmt::format("user '{}' has root's rights; no job runs as root", name)};
  }
  return *user;
}

std::string unix_user_name(uid_t user) {
  const std::optional<UnixUser> known = known_user("", user);
  return known ? known->name : std::to_string(user);
}

void AsUser::use(const Rights& rights) {
  // A file system user other than root has none of root's rights over files (capabilities(7)).
  set_thread_groups(rights.groups);
  setfsgid(rights.group);
  setfsuid(rights.user);
  if (setfsuid(static_cast<uid_t>(-1)) != static_cast<int>(rights.user) ||
      setfsgid(static_cast<gid_t>(-1)) != static_cast<int>(rights.group)) {
    cannot_switch("change the user it acts as");
  }
}

void AsUser::change_to(const Rights& rights) {
  before_.user = static_cast<uid_t>(setfsuid(static_cast<uid_t>(-1)));
  before_.group = static_cast<gid_t>(setfsgid(static_cast<gid_t>(-1)));
  before_.groups.resize(static_cast<std::size_t>(std::max(getgroups(0, nullptr), 0)));
  if (getgroups(static_cast<int>(before_.groups.size()), before_.groups.data()) < 0) {
    cannot_switch("read its groups");
  }
  active_ = true;
  use(rights);
}

AsUser::AsUser(uid_t user, gid_t group, const std::vector<gid_t>& groups) {
  if (geteuid() == 0 && user != 0) change_to({user, group, groups});
}

AsUser AsUser::owner_of(const std::string& folder) {
  struct stat info {};
  if (geteuid() != 0 || lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return {};
  return {info.st_uid, info.st_gid, {info.st_gid}};
}

AsUser AsUser::daemon() {
  AsUser itself;
  if (geteuid() == 0) itself.change_to({0, getegid(), {getegid()}});
  return itself;
}

AsUser::~AsUser() {
  if (active_) use(before_);
}

}  // namespace rubato::control
