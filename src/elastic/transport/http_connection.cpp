#include "elastic/transport/http_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

enum class Waited { kReady, kInterrupted, kTimedOut };

Waited wait_for(int socket, short events, steady_clock::time_point deadline, int interrupt = -1) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    const auto ms = std::clamp<std::int64_t>(left.count(), 0, 60'000);
    std::array<pollfd, 2> entries{pollfd{.fd = socket, .events = events, .revents = 0},
                                  pollfd{.fd = interrupt, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(ms));
    if (ready > 0 && entries[1].revents != 0) return Waited::kInterrupted;
    if (ready > 0) return Waited::kReady;
    if (ready == 0 && ms < 60'000) return Waited::kTimedOut;
  }
}

Error io_error(const char* what, int code) {
  return {ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(code))};
}

Error timed_out(const char* what) { return {ErrorCode::kIo, fmt::format("{}: timed out", what)}; }

Result<Descriptor> connect_to(const addrinfo& address, steady_clock::time_point deadline) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return io_error("cannot make a socket", errno);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return io_error("cannot connect", errno);
  if (wait_for(socket.get(), POLLOUT, deadline) != Waited::kReady) {
    return timed_out("cannot connect");
  }
  int problem = 0;
  socklen_t size = sizeof(problem);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem != 0) return io_error("cannot connect", problem);
  return socket;
}

}  // namespace

Result<HttpConnection> HttpConnection::open(const std::string& host, std::uint16_t port,
                                            Time deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int looked = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (looked != 0) {
    return Error{ErrorCode::kIo, fmt::format("unknown host: {}", gai_strerror(looked))};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  const bool v6 = host.find(':') != std::string::npos;
  std::string name = v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
  Error last{ErrorCode::kIo, "the host has no address"};
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Result<Descriptor> socket = connect_to(*address, deadline);
    if (socket.ok()) return HttpConnection(std::move(*socket), std::move(name));
    last = socket.error();
  }
  return last;
}

bool HttpConnection::alive() const {
  pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 0;  // nothing was asked, so all there could be is its end
}

Status HttpConnection::post(std::string_view path, std::string_view json, Time deadline) const {
  std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n",
      path, host_, json.size());
  request += json;
  std::string_view rest = request;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      return io_error("cannot send", errno);
    } else if (wait_for(socket_.get(), POLLOUT, deadline) != Waited::kReady) {
      return timed_out("cannot send");
    }
  }
  return ok_status();
}

Result<HttpConnection::Read> HttpConnection::receive(HttpReader& reader, Time deadline,
                                                     int interrupt) const {
  const Waited waited = wait_for(socket_.get(), POLLIN, deadline, interrupt);
  if (waited == Waited::kInterrupted) return Read::kInterrupted;
  if (waited == Waited::kTimedOut) return Read::kTimedOut;
  std::array<char, 16 * 1024> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return Read::kSome;
    return io_error("no answer", errno);
  }
  const Status taken =
      count == 0 ? reader.end() : reader.feed({bytes.data(), static_cast<std::size_t>(count)});
  if (!taken.ok()) return taken.error();
  return Read::kSome;
}

}  // namespace rubato::elastic
