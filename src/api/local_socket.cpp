#include "api/local_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace rubato::api {

namespace {

constexpr std::string_view kLocalPrefix = "unix:";

}  // namespace

Result<int> listen_locally(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return invalid_input(fmt::format("socket {}: the path is longer than {} bytes", path,
                                     sizeof address.sun_path - 1));
  }
  path.copy(address.sun_path, path.size());
  struct stat before {};
  if (lstat(path.c_str(), &before) == 0 && S_ISSOCK(before.st_mode)) unlink(path.c_str());
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file >= 0 && bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      chmod(path.c_str(), 0666) == 0 && listen(file, 512) == 0) {
    return file;
  }
  const std::string problem = std::strerror(errno);
  if (file >= 0) close(file);
  return Error{ErrorCode::kIo, fmt::format("cannot listen on {}: {}", path, problem)};
}

std::string local_address(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  int family = 0;
  socklen_t family_size = sizeof family;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &family_size) != 0 || family != AF_UNIX ||
      getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return "";
  }
  return fmt::format("{}{}", kLocalPrefix, peer.uid);
}

std::optional<uid_t> local_user(std::string_view address) {
  if (!address.starts_with(kLocalPrefix)) return std::nullopt;
  const auto number = parse_int(address.substr(kLocalPrefix.size()));
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uid_t>(*number);
}

}  // namespace rubato::api
