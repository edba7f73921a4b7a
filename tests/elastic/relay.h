// Somebody on the way between two workers: forwards the bytes of connections to a port of this
// machine, records them, and may change them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class Relay {
 public:
  // Changes bytes that are about to be forwarded, of which `before` went that way already on the
  // same connection. Called by the relay's thread.
  using Change = std::function<void(bool to_target, std::size_t before, std::string& bytes)>;

  explicit Relay(int target, Change change = {}) : target_(target), change_(std::move(change)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    listening_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    RUBATO_CHECK(bind(listening_.get(), raw, sizeof address) == 0, "relay: cannot bind");
    RUBATO_CHECK(listen(listening_.get(), 16) == 0, "relay: cannot listen");
    RUBATO_CHECK(getsockname(listening_.get(), raw, &size) == 0, "relay: no port");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    stop_ = true;
    thread_.join();
  }

  int port() const { return port_; }
  // Everything that came by, of all connections and directions.
  std::string recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
  }

 private:
  struct Side {
    Descriptor socket;
    std::size_t forwarded = 0;  // of what it sent
  };
  using Connection = std::array<Side, 2>;  // who connected, the target

  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void run() {
    while (!stop_) {
      std::vector<pollfd> entries{{listening_.get(), POLLIN, 0}};
      for (const Connection& connection : connections_) {
        for (const Side& side : connection) entries.push_back({side.socket.get(), POLLIN, 0});
      }
      ::poll(entries.data(), entries.size(), 20);
      std::size_t i = 1;
      for (auto it = connections_.begin(); it != connections_.end(); i += 2) {
        const bool alive = (entries[i].revents == 0 || forward(*it, 0)) &&
                           (entries[i + 1].revents == 0 || forward(*it, 1));
        it = alive ? std::next(it) : connections_.erase(it);  // closes both sides
      }
      if (entries[0].revents != 0) accept_one();
    }
  }

  void accept_one() {
    Descriptor from(accept(listening_.get(), nullptr, nullptr));
    Descriptor to(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(target_);
    if (from.valid() &&
        connect(to.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      connections_.push_back({Side{std::move(from)}, Side{std::move(to)}});
    }
  }

  bool forward(Connection& connection, std::size_t from) {
    std::string bytes(1 << 16, '\0');
    const ssize_t n = recv(connection[from].socket.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) return false;
    bytes.resize(static_cast<std::size_t>(n));
    {
      const std::lock_guard lock(mutex_);
      recorded_ += bytes;
    }
    const std::size_t before = connection[from].forwarded;
    connection[from].forwarded += bytes.size();
    if (change_) change_(from == 0, before, bytes);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t m = send(connection[1 - from].socket.get(), bytes.data() + sent,
                             bytes.size() - sent, MSG_NOSIGNAL);
      if (m <= 0) return false;
      sent += static_cast<std::size_t>(m);
    }
    return true;
  }

  int target_;
  Change change_;
  int port_ = 0;
  Descriptor listening_;
  std::list<Connection> connections_;
  mutable std::mutex mutex_;
  std::string recorded_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rubato::elastic
