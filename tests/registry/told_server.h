// A server of HTTP that answers what the test tells it, and then closes the connection.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "elastic/job/registry_url.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

class ToldServer {
 public:
  // `answer` gets the request. With a `pace`, the answer is repeated that often, a part at a time,
  // until the client goes away.
  explicit ToldServer(std::function<std::string(const std::string&)> answer,
                      std::chrono::milliseconds pace = {})
      : answer_(std::move(answer)), pace_(pace) {
    listening_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size);
    listen(listening_.get(), 16);
    getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = {"127.0.0.1", ntohs(address.sin_port)};
    thread_ = std::thread([this] { run(); });
  }
  ToldServer(const ToldServer&) = delete;
  ToldServer& operator=(const ToldServer&) = delete;
  ~ToldServer() {
    stopping_ = true;
    thread_.join();
  }
  const ServerAddress& address() const { return address_; }

 private:
  static bool ready(int fd, short events) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    return ::poll(&entry, 1, 5) == 1;
  }
  void run() {
    while (!stopping_) {
      if (!ready(listening_.get(), POLLIN)) continue;
      const Descriptor client(
          accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.valid()) serve(client.get());
    }
  }
  static bool whole(const std::string& request) {
    const std::size_t head = request.find("\r\n\r\n");
    const std::size_t length = request.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() >=
           head + 4 + static_cast<std::size_t>(std::atol(request.c_str() + length + 16));
  }
  void serve(int client) {
    std::string request;
    while (!whole(request)) {
      if (stopping_) return;
      if (!ready(client, POLLIN)) continue;
      char bytes[4096];
      const ssize_t count = recv(client, bytes, sizeof(bytes), 0);
      if (count <= 0) return;
      request.append(bytes, static_cast<std::size_t>(count));
    }
    const std::string answer = answer_(request);
    std::size_t sent = 0;
    while (!stopping_ && sent < answer.size()) {
      if (!ready(client, POLLOUT)) continue;
      const std::size_t part = pace_.count() > 0 ? 1 : answer.size() - sent;
      const ssize_t count = send(client, answer.data() + sent, part, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
      if (pace_.count() == 0) continue;
      std::this_thread::sleep_for(pace_);
      if (sent == answer.size()) sent -= 1;  // and on
    }
    shutdown(client, SHUT_WR);
  }

  const std::function<std::string(const std::string&)> answer_;
  const std::chrono::milliseconds pace_;
  Descriptor listening_;
  ServerAddress address_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rubato::elastic
