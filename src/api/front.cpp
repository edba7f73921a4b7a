#include "api/front.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include "api/local_socket.h"
#include "api/reply.h"

namespace rubato::api {

namespace {

// The reason phrase of a status with which malformed requests are refused.
std::string_view status_words(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Error";
  }
}

// The connection whose request this thread is answering. httplib passes no such thing on.
thread_local const Channel* answered = nullptr;

}  // namespace

// One request as httplib sees it: the head comes from memory, the response goes to the connection.
class Front::ByteStream final : public httplib::Stream {
 public:
  ByteStream(Channel& channel, Connection& connection, const std::string& head, double write_s)
      : channel_(channel), connection_(connection), head_(head), write_s_(write_s) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !channel_.peer_gone(); }
  ssize_t read(char* data, std::size_t size) override {
    const std::size_t count = head_.copy(data, size, position_);
    position_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, std::size_t size) override {
    connection_.waits_since = Clock::now().time_since_epoch().count();
    const bool written = channel_.write(data, size, write_s_);
    connection_.waits_since = 0;
    return written ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = channel_.address();
    port = channel_.port();
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  // httplib uses this only to refuse descriptors that are too large for select(), which is unused.
  socket_t socket() const override { return 0; }

 private:
  Channel& channel_;
  Connection& connection_;
  const std::string& head_;
  std::size_t position_ = 0;
  double write_s_;
};

Front::Front(const FrontLimits& limits, TlsContext tls, Handler handler)
    : limits_(limits), tls_(std::move(tls)) {
  set_keep_alive_timeout(static_cast<time_t>(limits_.request.idle_s));
  // Every request is answered here, before httplib matches patterns or reads a body.
  set_pre_routing_handler(
      [handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
        handler(request, response, [channel = answered] { return channel->peer_gone(); });
        return HandlerResponse::Handled;
      });
}

Front::~Front() { stop_all(); }

Status Front::listen_on(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      code != 0) {
    return invalid_input(fmt::format("listen address '{}': {}", host, gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::string problem = "no address";
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd, 512) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      listener_ = fd;
      port_ = ntohs(bound.ss_family == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                        : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
      break;
    }
    problem = std::strerror(errno);
    if (errno == EADDRINUSE) {
      problem =
          "another program uses this port; 'rubato doctor' says whether it is a rubatod, "
          "--listen HOST:PORT chooses another";
    }
    if (fd >= 0) close(fd);
  }
  if (listener_ < 0) {
    return Error{ErrorCode::kIo, fmt::format("cannot listen on {}:{}: {}", host, port, problem)};
  }
  begin_accepting();
  return ok_status();
}

Status Front::listen_at(const std::string& path) {
  const Result<int> listener = listen_locally(path);
  if (!listener.ok()) return listener.error();
  listener_ = *listener;
  begin_accepting();
  return ok_status();
}

void Front::begin_accepting() {
  wake_ = eventfd(0, EFD_CLOEXEC);
  svr_sock_ = listener_;  // httplib ends streams when this is INVALID_SOCKET
  acceptor_ = std::thread([this] { accept_connections(); });
}

void Front::stop_all() {
  if (!acceptor_.joinable()) return;
  svr_sock_ = INVALID_SOCKET;
  const std::uint64_t one = 1;
  while (::write(wake_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  acceptor_.join();
  std::list<Connection> last;
  {
    const MutexLock lock(mutex_);
    for (Connection& connection : connections_) {
      if (!connection.done) shutdown(connection.socket, SHUT_RDWR);
    }
    last.swap(connections_);
  }
  for (Connection& connection : last) connection.thread.join();
  close(listener_);
  close(wake_);
}

FrontCounts Front::counts() const {
  const MutexLock lock(mutex_);
  FrontCounts result = counts_;
  for (const Connection& connection : connections_) result.open += connection.done ? 0 : 1;
  return result;
}

void Front::accept_connections() {
  // The connection threads inherit this mask. A TLS write to a closed socket must return an error,
  // not raise SIGPIPE.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  for (;;) {
    std::array<pollfd, 2> wait_for{
        {{.fd = listener_, .events = POLLIN, .revents = 0}, {.fd = wake_, .events = POLLIN}}};
    const int ready = poll(wait_for.data(), wait_for.size(), 1000);
    if (wait_for[1].revents != 0) return;
    join_ended();
    if (ready <= 0 || wait_for[0].revents == 0) continue;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      admit(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // Out of resources until a connection ends; try again shortly.
      push_out_slowest();
      poll(&wait_for[1], 1, 20);
    }
  }
}

void Front::admit(int socket) {
  push_out_slowest();
  const MutexLock lock(mutex_);
  ++counts_.accepted;
  // Connections that were pushed out take a moment to end, so the hard limit is twice the number.
  if (connections_.size() >= static_cast<std::size_t>(limits_.connections) * 2) {
    ++counts_.turned_away;
    close(socket);
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = socket;
  connection.waits_since = Clock::now().time_since_epoch().count();
  try {
    connection.thread = std::thread([this, &connection] { serve(connection); });
  } catch (const std::system_error&) {  // no more threads
    ++counts_.turned_away;
    close(socket);
    connections_.pop_back();
  }
}

void Front::push_out_slowest() {
  const MutexLock lock(mutex_);
  int open = 0;
  Connection* slowest = nullptr;
  for (Connection& connection : connections_) {
    if (connection.done || connection.pushed_out) continue;
    ++open;
    if (connection.waits_since == 0) continue;
    if (slowest == nullptr || connection.waits_since < slowest->waits_since) slowest = &connection;
  }
  if (open < limits_.connections || slowest == nullptr) return;
  ++counts_.pushed_out;
  slowest->pushed_out = true;
  shutdown(slowest->socket, SHUT_RDWR);
}

void Front::join_ended() {
  std::list<Connection> ended;
  {
    const MutexLock lock(mutex_);
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto next = std::next(it);
      if (it->done) ended.splice(ended.end(), connections_, it);
      it = next;
    }
  }
  for (Connection& connection : ended) connection.thread.join();
}

void Front::serve(Connection& connection) {
  auto channel = std::make_unique<Channel>(connection.socket, tls_.get());
  std::string buffer;
  if (channel->handshake(after_seconds(limits_.request.request_s))) {
    for (int i = 1; svr_sock_ != INVALID_SOCKET; ++i) {
      connection.waits_since = Clock::now().time_since_epoch().count();
      auto next = read_request(*channel, buffer, limits_.request);
      connection.waits_since = 0;
      if (std::holds_alternative<Closed>(next)) break;
      if (const Refusal* refusal = std::get_if<Refusal>(&next)) {
        refuse(*channel, *refusal);
        break;
      }
      RawRequest& request = std::get<RawRequest>(next);
      const bool last = !request.keep_alive || i >= limits_.requests_per_connection;
      if (!answer(*channel, connection, std::move(request), last) || last) break;
    }
  }
  {
    // Closed under the lock, so that no other thread shuts down a descriptor that has been reused.
    const MutexLock lock(mutex_);
    connection.done = true;
    channel.reset();
  }
}

bool Front::answer(Channel& channel, Connection& connection, RawRequest request, bool last) {
  ByteStream stream(channel, connection, request.head, limits_.write_s);
  answered = &channel;
  bool closed = false;
  return process_request(stream, last, closed, [&](httplib::Request& parsed) {
    parsed.body = std::move(request.body);
    if (!request.content_type.empty()) parsed.set_header("content-type", request.content_type);
    if (!request.range.empty()) parsed.set_header("range", request.range);
  });
}

void Front::refuse(Channel& channel, const Refusal& refusal) {
  {
    const MutexLock lock(mutex_);
    ++counts_.refused;
  }
  const std::string body = error_text(refusal.code, refusal.message);
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      refusal.status, status_words(refusal.status), body.size(), body);
  channel.write(text.data(), text.size(), limits_.write_s);
  channel.end_writing();
  // The client may still be sending. Closing now would reset the connection before the client has
  // read the error.
  std::array<char, 16 * 1024> rest{};
  std::size_t drained = 0;
  const Clock::time_point deadline = after_seconds(1);
  while (drained < 4 * limits_.request.body_bytes) {
    const std::size_t got = channel.read(rest.data(), rest.size(), deadline);
    if (got == 0) break;
    drained += got;
  }
}

}  // namespace rubato::api
