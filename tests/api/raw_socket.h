// A TCP connection to a server on this machine, for tests that do not speak proper HTTP.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace rubato::api {

class RawSocket {
 public:
  explicit RawSocket(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        fd_ >= 0 && connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawSocket() {
    if (fd_ >= 0) close(fd_);
  }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawSocket& operator=(RawSocket&&) = delete;

  bool connected() const { return connected_; }
  // False if the peer does not accept the bytes.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void end_sending() const { shutdown(fd_, SHUT_WR); }
  // Reads until `stop` arrives, the peer closes or two minutes pass.
  std::string read_until(std::string_view stop) const {
    std::string got;
    std::array<char, 4096> block{};
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    while ((stop.empty() || got.find(stop) == std::string::npos) && poll(&one, 1, 120'000) > 0) {
      const ssize_t count = recv(fd_, block.data(), block.size(), 0);
      if (count <= 0) {
        closed_ = true;
        break;
      }
      got.append(block.data(), static_cast<std::size_t>(count));
    }
    return got;
  }
  std::string read_to_end() const { return read_until({}); }
  bool closed_by_server() const { return closed_; }

 private:
  int fd_;
  bool connected_ = false;
  mutable bool closed_ = false;
};

}  // namespace rubato::api
