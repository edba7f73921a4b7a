// A connection to a worker's control port, for tests: it may be anybody's.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "elastic/job_runner.h"
#include "elastic/transport/wire.h"

namespace rubato::elastic {

class Stranger {
 public:
  explicit Stranger(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(fd_); }
  bool connected() const { return connected_; }
  void say(const std::string& bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;  // already refused
      sent += static_cast<std::size_t>(n);
    }
  }
  // The next frame; nothing if the connection was closed.
  std::optional<Frame> hear() {
    for (;;) {
      if (auto frame = reader_.next()) return frame;
      std::array<std::byte, 4096> bytes;
      pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, kPatienceMs) != 1) return std::nullopt;
      const ssize_t n = recv(fd_, bytes.data(), bytes.size(), 0);
      if (n <= 0 || !reader_.feed(std::span(bytes).first(static_cast<std::size_t>(n))).ok()) {
        return std::nullopt;
      }
    }
  }
  bool has_input() const {
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  bool turned_away() {
    while (hear()) {
    }
    return has_input();
  }

 private:
  static constexpr int kPatienceMs =
      std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  int fd_;
  bool connected_ = false;
  FrameReader reader_;
};

}  // namespace rubato::elastic
