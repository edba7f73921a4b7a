#include "elastic/transport/line_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace rubato::elastic {

namespace {

constexpr int kWaiting = 64;  // connections that are not accepted yet

Error failed(const std::string& path, const char* what) {
  return {ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno))};
}

// Calls bind() or connect() with the address of the file, as seen from its folder.
template <typename Use>
Result<Descriptor> with_socket(const std::string& path, const char* what, const Use& use) {
  const std::filesystem::path file(path);
  const Descriptor folder(
      ::open(file.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.valid()) return failed(path, what);
  const std::string nearby =
      fmt::format("/proc/self/fd/{}/{}", folder.get(), file.filename().string());
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (nearby.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return failed(path, what);
  }
  std::copy(nearby.begin(), nearby.end(), address.sun_path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() ||
      use(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed(path, what);
  }
  return socket;
}

}  // namespace

Result<Descriptor> connect_to_file(const std::string& path) {
  return with_socket(path, "connect", ::connect);
}

Result<Descriptor> listen_at_file(const std::string& path) {
  std::error_code gone;
  std::filesystem::remove(path, gone);
  return with_socket(path, "listen", [](int socket, const sockaddr* address, socklen_t size) {
    return ::bind(socket, address, size) == 0 ? ::listen(socket, kWaiting) : -1;
  });
}

Status send_all(int socket, std::string_view text, std::chrono::steady_clock::time_point deadline) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return failed("socket", "send");
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{.fd = socket, .events = POLLOUT, .revents = 0};
    if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0) {
      return Error{ErrorCode::kIo, "socket: the other side does not take what is sent"};
    }
  }
  return ok_status();
}

std::optional<std::string> LineReader::next() {
  const std::size_t end = text_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

Status LineReader::receive(int socket) {
  std::array<char, 64 << 10> buffer{};
  for (;;) {
    const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return ok_status();
    if (count < 0) return failed("socket", "receive");
    if (count == 0) return Error{ErrorCode::kIo, "socket: the other side has closed it"};
    text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (text_.find('\n') != std::string::npos) return ok_status();
    if (text_.size() > most_) {
      return Error{ErrorCode::kIo, fmt::format("socket: a line of more than {} bytes", most_)};
    }
  }
}

}  // namespace rubato::elastic
