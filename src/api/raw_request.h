// Reads one HTTP/1.1 request off a connection, whole and bounded, before anything looks at it. A
// client that is slow, endless or no HTTP client at all is found out here.
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

// What the request said, reduced to what the API knows. Other headers are not passed on.
struct RawRequest {
  // Request line, the headers Host, Authorization, Accept, Idempotency-Key and Last-Event-ID, and
  // an empty line. The type of the body is in `content_type`.
  std::string head;
  std::string content_type;
  std::string body;
  bool keep_alive = true;
};

// Answered with this status and then closed.
struct Refusal {
  int status = 400;
  std::string code;
  std::string message;
};

struct Closed {};  // by the client, or idle for too long: nothing to answer

// `buffer` holds bytes that were read and belong to no request yet; it goes from call to call.
std::variant<RawRequest, Refusal, Closed> read_request(Channel& channel, std::string& buffer,
                                                       const RequestLimits& limits);

// The head alone, without its final empty line: a request (with `content_length` and
// `expects_continue`), or why not.
struct ParsedHead {
  RawRequest request;
  std::size_t content_length = 0;
  bool expects_continue = false;
};
std::variant<ParsedHead, Refusal> parse_head(std::string_view head, const RequestLimits& limits);

}  // namespace rubato::api
