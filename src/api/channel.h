// The bytes of one accepted connection, plain or TLS, with a deadline on everything that waits for
// the other end.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX and SSL
struct ssl_st;

namespace rubato::api {

using Clock = std::chrono::steady_clock;
inline Clock::time_point after_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct TlsContextDeleter {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, TlsContextDeleter>;
// TLS 1.2 or newer with this certificate chain and key (PEM files).
Result<TlsContext> make_tls_context(const std::string& certificate, const std::string& key);

class Channel {
 public:
  // Takes the socket over. `tls` null: plain bytes.
  Channel(int socket, ssl_ctx_st* tls);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Nothing to do for plain bytes. False: no TLS client, or too slow.
  bool handshake(Clock::time_point deadline);
  // Bytes read; 0 when the other end has closed, the connection is broken or the deadline passed.
  std::size_t read(char* data, std::size_t size, Clock::time_point deadline);
  // All of it, or false. The deadline starts again whenever some bytes have left.
  bool write(const char* data, std::size_t size, double seconds);
  // The other end reads to the end of what was written.
  void end_writing();
  // The other end has closed its side, or the connection is broken.
  bool peer_gone() const;
  const std::string& address() const { return address_; }  // of the other end
  int port() const { return port_; }

 private:
  bool wait(short events, Clock::time_point deadline) const;
  // After a TLS call that returned `result`: waits for what it needs; false when it failed for
  // good.
  bool wait_for_tls(int result, Clock::time_point deadline) const;

  int socket_;
  ssl_st* ssl_ = nullptr;
  std::string address_;
  int port_ = 0;
};

}  // namespace rubato::api
