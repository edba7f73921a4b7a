// Stands between a client and a server of HTTP and does to some requests what networks do: they do
// not arrive, or only a part of them does, or their answers get lost, or nobody answers for a
// while. Which ones is decided by a seed.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/random.h"
#include "elastic/job/registry_url.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/http_reader.h"

namespace rubato::elastic {

class CuttingProxy {
 public:
  enum class Fate { kPass, kNotForwarded, kHalfForwarded, kAnswerLost, kSilent };

  // Disturbs one of `one_in` requests; 0: none. kSilent lasts for `silence`.
  CuttingProxy(ServerAddress server, std::uint64_t seed, std::uint32_t one_in,
               std::chrono::milliseconds silence)
      : server_(std::move(server)), silence_(silence), random_(seed), one_in_(one_in) {
    listening_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size);
    listen(listening_.get(), 64);
    getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = {"127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this] { accept_all(); });
  }
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;
  ~CuttingProxy() {
    stopping_ = true;
    thread_.join();
    for (std::thread& thread : served_) thread.join();
  }

  const ServerAddress& address() const { return address_; }
  void calm() { one_in_ = 0; }
  int disturbed() const { return disturbed_; }

 private:
  static constexpr int kLookMs = 20;

  void accept_all() {
    while (!stopping_) {
      if (!readable(listening_.get())) continue;
      Descriptor client(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) continue;
      served_.emplace_back([this, fd = dup(client.get())] { serve(Descriptor(fd)); });
    }
  }
  static bool readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, kLookMs) == 1;
  }
  // Appends what arrives until `complete`; false: the connection has ended.
  template <typename Complete>
  bool read_until(int fd, std::string& text, const Complete& complete) const {
    while (!complete(text)) {
      if (stopping_) return false;
      if (!readable(fd)) continue;
      char bytes[16384];
      const ssize_t count = recv(fd, bytes, sizeof(bytes), 0);
      if (count <= 0) return false;
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return true;
  }
  static void send_all(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  static bool whole_request(const std::string& text) {
    const std::size_t head = text.find("\r\n\r\n");
    const std::size_t length = text.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return text.size() >=
           head + 4 + static_cast<std::size_t>(std::atol(text.c_str() + length + 16));
  }
  Fate fate() {
    const std::lock_guard lock(mutex_);
    const std::uint32_t one_in = one_in_;
    if (one_in == 0 || random_.below(one_in) != 0) return Fate::kPass;
    ++disturbed_;
    return static_cast<Fate>(1 + random_.below(4));
  }

  void serve(const Descriptor& client) {
    for (std::string request; read_until(client.get(), request, whole_request); request.clear()) {
      const Fate now = fate();
      if (now == Fate::kNotForwarded) return;
      const Descriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(server_.port);
      inet_pton(AF_INET, server_.host.c_str(), &address.sin_addr);
      if (connect(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
        return;
      const std::string_view all = request;
      send_all(server.get(), now == Fate::kHalfForwarded ? all.substr(0, all.size() / 2) : all);
      if (now == Fate::kHalfForwarded) return;
      std::string answer;
      HttpReader reader(64 << 20);
      std::size_t fed = 0;
      const bool answered = read_until(server.get(), answer, [&](const std::string& text) {
        const Status taken = reader.feed(std::string_view(text).substr(fed));
        fed = text.size();
        return reader.complete() || !taken.ok();
      });
      if (now == Fate::kSilent) std::this_thread::sleep_for(silence_);
      if (!answered || now == Fate::kAnswerLost) return;
      send_all(client.get(), answer);
    }
  }

  const ServerAddress server_;
  const std::chrono::milliseconds silence_;
  Descriptor listening_;
  ServerAddress address_;
  std::mutex mutex_;
  Random random_;
  std::atomic<std::uint32_t> one_in_;
  std::atomic<int> disturbed_{0};
  std::atomic<bool> stopping_{false};
  std::list<std::thread> served_;  // used by the thread until it ends
  std::thread thread_;
};

}  // namespace rubato::elastic
