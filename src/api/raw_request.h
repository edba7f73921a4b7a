// Reads one complete HTTP/1.1 request from a connection, with limits on size and time. Clients that
// are too slow, send too much or do not speak HTTP are rejected here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "api/channel.h"

namespace rubato::api {

struct RequestLimits {
  std::size_t head_bytes = 16 * 1024;  // request line and headers
  std::size_t body_bytes = 1024 * 1024;
  double request_s = 10;  // from a request's first byte to its last
  double idle_s = 30;     // between two requests
};

// A request reduced to the parts that the API uses. Other headers are dropped.
struct RawRequest {
  // The request line, the headers Host, Authorization, Cookie, Origin, Accept, Idempotency-Key,
  // If-Range, If-None-Match and Last-Event-ID, and an empty line. The type of the body is in
  // `content_type`.
  std::string head;
  std::string content_type;
  std::string range;  // the header Range, which httplib must not see: it would apply it by itself
  std::string body;
  bool keep_alive = true;
};

// The connection is answered with this status and then closed.
struct Refusal {
  int status = 400;
  std::string code;
  std::string message;
};

struct Closed {};  // by the client, or after idling too long; there is nothing to answer

// `buffer` keeps bytes that were read but not consumed yet. Pass the same buffer to every call for
// a connection.
std::variant<RawRequest, Refusal, Closed> read_request(Channel& channel, std::string& buffer,
                                                       const RequestLimits& limits);

// Parses the head alone, without its final empty line. Returns the request or the reason for
// refusing it.
struct ParsedHead {
  RawRequest request;
  std::size_t content_length = 0;
  bool expects_continue = false;
};
std::variant<ParsedHead, Refusal> parse_head(std::string_view head, const RequestLimits& limits);

}  // namespace rubato::api
