#include "api/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "api/local_socket.h"

namespace rubato::api {

namespace {

std::string tls_problem() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

}  // namespace

void TlsContextDeleter::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

Result<TlsContext> make_tls_context(const std::string& certificate, const std::string& key) {
  for (const std::string& file : {certificate, key}) {
    if (access(file.c_str(), R_OK) == 0) continue;
    const bool forbidden = errno == EACCES;
    return invalid_input(
        fmt::format("cannot read {}: {}{}", file, std::strerror(errno),
                    forbidden ? "; the user that runs the daemon must be able to read it" : ""));
  }
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  if (!context) return Error{ErrorCode::kIo, "TLS: " + tls_problem()};
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1) {
    return invalid_input(certificate + ": not a PEM certificate (" + tls_problem() + ")");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool of_another = ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH;
    const std::string problem = tls_problem();
    return invalid_input(
        of_another ? fmt::format("{} is not the key of the certificate {}", key, certificate)
                   : fmt::format("{}: not a PEM key ({})", key, problem));
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {  // of another kind, such as RSA and EC
    ERR_clear_error();
    return invalid_input(fmt::format("{} is not the key of the certificate {}", key, certificate));
  }
  return context;
}

Channel::Channel(int socket, ssl_ctx_st* tls) : socket_(socket) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  address_ = local_address(socket_);
  if (address_.empty() && getpeername(socket_, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (peer.ss_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(&peer);
      inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
      port_ = ntohs(v4->sin_port);
    } else if (peer.ss_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&peer);
      inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
      port_ = ntohs(v6->sin6_port);
    }
    address_ = text.data();
  }
  if (tls != nullptr) {
    ssl_ = SSL_new(tls);
    if (ssl_ != nullptr) SSL_set_fd(ssl_, socket_);
  }
}

Channel::~Channel() {
  if (ssl_ != nullptr) {
    SSL_shutdown(ssl_);  // sends close_notify if that does not block
    SSL_free(ssl_);
    ERR_clear_error();
  }
  close(socket_);
}

bool Channel::wait(short events, Clock::time_point deadline) const {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one{.fd = socket_, .events = events, .revents = 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<long long>(left + 1, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Channel::wait_for_tls(int result, Clock::time_point deadline) const {
  const int need = SSL_get_error(ssl_, result);
  ERR_clear_error();
  if (need == SSL_ERROR_WANT_READ) return wait(POLLIN, deadline);
  if (need == SSL_ERROR_WANT_WRITE) return wait(POLLOUT, deadline);
  return false;
}

bool Channel::handshake(Clock::time_point deadline) {
  if (ssl_ == nullptr) return true;
  for (;;) {
    const int result = SSL_accept(ssl_);
    if (result == 1) return true;
    if (!wait_for_tls(result, deadline)) return false;
  }
}

std::size_t Channel::read(char* data, std::size_t size, Clock::time_point deadline) {
  for (;;) {
    if (ssl_ != nullptr) {
      std::size_t got = 0;
      const int result = SSL_read_ex(ssl_, data, size, &got);
      if (result == 1) return got;
      if (!wait_for_tls(result, deadline)) return 0;
      continue;
    }
    const ssize_t got = recv(socket_, data, size, 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return 0;
    if (!wait(POLLIN, deadline)) return 0;
  }
}

bool Channel::write(const char* data, std::size_t size, double seconds) {
  while (size > 0) {
    std::size_t sent = 0;
    if (ssl_ != nullptr) {
      const int result = SSL_write_ex(ssl_, data, size, &sent);
      if (result != 1) {
        if (!wait_for_tls(result, after_seconds(seconds))) return false;
        continue;
      }
    } else {
      const ssize_t result = send(socket_, data, size, MSG_NOSIGNAL);
      if (result < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
        if (!wait(POLLOUT, after_seconds(seconds))) return false;
        continue;
      }
      sent = static_cast<std::size_t>(result);
    }
    data += sent;
    size -= sent;
  }
  return true;
}

void Channel::end_writing() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_);
  shutdown(socket_, SHUT_WR);
}

bool Channel::peer_gone() const {
  pollfd one{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  return poll(&one, 1, 0) != 0;
}

}  // namespace rubato::api
