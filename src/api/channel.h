// Byte I/O on one accepted connection, plain or TLS. Calls that wait for the peer have a deadline.
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
// A server context for TLS 1.2 or newer with this certificate chain and key (PEM files).
Result<TlsContext> make_tls_context(const std::string& certificate, const std::string& key);

class Channel {
 public:
  // Takes ownership of the socket. With `tls` null, the bytes are plain.
  Channel(int socket, ssl_ctx_st* tls);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Does nothing for plain bytes. False if the peer is not a TLS client or is too slow.
  bool handshake(Clock::time_point deadline);
  // The number of bytes read; 0 if the peer closed, the connection broke or the deadline passed.
  std::size_t read(char* data, std::size_t size, Clock::time_point deadline);
  // Writes everything, or returns false. The timeout restarts whenever bytes were sent.
  bool write(const char* data, std::size_t size, double seconds);
  // Closes the sending side. The peer can still read everything that was written.
  void end_writing();
  // True if the peer has closed its side or the connection is broken.
  bool peer_gone() const;
  const std::string& address() const { return address_; }  // of the peer; or local_address()
  int port() const { return port_; }

 private:
  bool wait(short events, Clock::time_point deadline) const;
  // Call this after a TLS call returned `result`. Waits until the call can be repeated; false if it
  // failed for good.
  bool wait_for_tls(int result, Clock::time_point deadline) const;

  int socket_;
  ssl_st* ssl_ = nullptr;
  std::string address_;
  int port_ = 0;
};

}  // namespace rubato::api
