// The unix users that jobs run as, and the daemon acting with their rights.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::control {

struct UnixUser {
  std::string name;  // its number if the system has no name for it
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // all of them
  std::string home = "/";
  std::string shell = "/bin/sh";
};
// By name or number. A number that the system does not know stands for a user whose only group has
// the same number. Root is refused: no job runs as root.
Result<UnixUser> find_unix_user(const std::string& name);
// The name of a user id; its number if it has none.
std::string unix_user_name(uid_t user);

// While it exists, this thread opens, creates and removes files as that user would, without any
// right of the daemon. Links and folders that the user swaps therefore cannot fool the daemon:
// nothing that the user may not touch is touched. Other threads are not affected.
//
// Only a daemon that runs as root needs it; it does nothing elsewhere.
class AsUser {
 public:
  AsUser(uid_t user, gid_t group, const std::vector<gid_t>& groups);
  explicit AsUser(const UnixUser& user) : AsUser(user.uid, user.gid, user.groups) {}
  // As the owner of a job's folder. The folder must be in a folder that only the daemon can write,
  // so that its owner is whom the daemon gave it to. Does nothing if it does not exist.
  static AsUser owner_of(const std::string& folder);
  // As itself, while an object further out lets it act as a user.
  static AsUser daemon();
  AsUser(AsUser&& other) noexcept
      : active_(std::exchange(other.active_, false)), before_(std::move(other.before_)) {}
  AsUser& operator=(AsUser&&) = delete;
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();

 private:
  struct Rights {
    uid_t user = 0;
    gid_t group = 0;
    std::vector<gid_t> groups;
  };
  AsUser() = default;
  static void use(const Rights& rights);
  void change_to(const Rights& rights);

  bool active_ = false;
  Rights before_;
};

}  // namespace rubato::control
