// Sockets of other processes, for tests: which process listens where, which are connected, and how
// to break a connection without ending a process.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace rubato::elastic {

struct SocketOf {
  int remote_fd = -1;  // its number in the other process
  bool listening = false;
  int local_port = 0;
  int peer_port = 0;  // 0: not connected
};

// A copy of a descriptor of another process of the same user; -1 if the kernel does not allow it.
inline int borrow_descriptor(pid_t pid, int fd) {
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return -1;
  const int copy = static_cast<int>(syscall(SYS_pidfd_getfd, process, fd, 0));
  close(process);
  return copy;
}

inline std::vector<SocketOf> sockets_of(pid_t pid) {
  std::vector<SocketOf> all;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unreadable;
    const std::string target = std::filesystem::read_symlink(it->path(), unreadable).string();
    if (unreadable || !target.starts_with("socket:")) continue;
    const int fd = std::atoi(it->path().filename().c_str());
    const int copy = borrow_descriptor(pid, fd);
    if (copy < 0) continue;
    SocketOf found{.remote_fd = fd};
    sockaddr_in address{};
    socklen_t size = sizeof address;
    int accepts = 0;
    socklen_t accepts_size = sizeof accepts;
    if (getsockname(copy, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_family == AF_INET) {
      found.local_port = ntohs(address.sin_port);
      getsockopt(copy, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &accepts_size);
      found.listening = accepts != 0;
      size = sizeof address;
      if (getpeername(copy, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
        found.peer_port = ntohs(address.sin_port);
      }
      all.push_back(found);
    }
    close(copy);
  }
  return all;
}

inline bool shut_down(pid_t pid, int remote_fd) {
  const int copy = borrow_descriptor(pid, remote_fd);
  if (copy < 0) return false;
  const bool done = shutdown(copy, SHUT_RDWR) == 0;
  close(copy);
  return done;
}

// Established connections of `a` whose other end is in `b`, as sockets of `a`.
inline std::vector<SocketOf> connections_between(pid_t a, pid_t b) {
  std::vector<SocketOf> found;
  const std::vector<SocketOf> others = sockets_of(b);
  for (const SocketOf& mine : sockets_of(a)) {
    for (const SocketOf& other : others) {
      if (mine.peer_port != 0 && mine.peer_port == other.local_port &&
          mine.local_port == other.peer_port) {
        found.push_back(mine);
      }
    }
  }
  return found;
}

inline bool stop_listening(pid_t pid) {
  bool any = false;
  for (const SocketOf& socket : sockets_of(pid)) {
    if (socket.listening) any = shut_down(pid, socket.remote_fd) || any;
  }
  return any;
}

}  // namespace rubato::elastic
