// A connection to an HTTP/1.1 server, for requests whose answers are small. Everything has a
// deadline. There is no TLS and no redirect: it is for services of the same network.
//
// Written by hand, since workers need no other library than header-only ones
// (docs/dependencies.md), and since a library that reads with a time limit per read waits as long
// as a server likes that sends a byte now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/http_reader.h"

namespace rubato::elastic {

class HttpConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Tries every address of the host. A host that is no numeric address is looked up by the
  // system's resolver, which has time limits of its own.
  static Result<HttpConnection> open(const std::string& host, std::uint16_t port, Time deadline);

  // Whether a connection that was not used for a while still is one.
  bool alive() const;
  // After an error the server may have received the request.
  Status post(std::string_view path, std::string_view json, Time deadline) const;
  // Waits for bytes and gives them to `reader`. Also returns, with nothing read, when the
  // descriptor `interrupt` becomes readable.
  enum class Read { kSome, kInterrupted, kTimedOut };
  Result<Read> receive(HttpReader& reader, Time deadline, int interrupt = -1) const;

 private:
  HttpConnection(Descriptor socket, std::string host)
      : socket_(std::move(socket)), host_(std::move(host)) {}

  Descriptor socket_;
  std::string host_;  // as the header Host names it
};

}  // namespace rubato::elastic
