// Sends and receives all of some bytes on a blocking socket. False: the connection is broken.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace rubato::elastic {

// `more`: further bytes follow at once.
inline bool send_bytes(int socket, std::span<const std::byte> bytes, bool more) {
  while (!bytes.empty()) {
    const ssize_t n =
        ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

inline bool receive_bytes(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace rubato::elastic
