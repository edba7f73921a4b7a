// Reads one response of an HTTP/1.1 server from the bytes that arrive. What a server sends is not
// trusted: every part has a bound, and memory grows only with bytes that actually arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace rubato::elastic {

class HttpReader {
 public:
  // `most_body`: a body that grows beyond it is an error, unless take_body() empties it in time.
  explicit HttpReader(std::size_t most_body) : most_body_(most_body) {}

  // After an error, close the connection: every later call returns the same error. Bytes behind the
  // end of the response are an error too, since nothing else was asked for.
  Status feed(std::string_view bytes);
  // The server has closed the connection. An error if the response is not complete.
  Status end();

  bool complete() const { return state_ == State::kDone; }
  int status() const { return status_; }  // 0: not known yet
  // Whether the connection can be used again once the response is complete.
  bool keeps_open() const { return keeps_open_; }
  // What has arrived of the body since the last call.
  std::string take_body() { return std::exchange(body_, {}); }

 private:
  enum class State { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kTrailer, kUntilEnd, kDone };

  Status fail(const std::string& what);
  bool advance();  // false: more bytes are needed, or an error was found
  bool take_head();
  std::string take_field(std::string_view line);  // returns what is wrong, or ""
  bool take_chunk_size();
  bool take_of_body(State next);
  bool take_line(std::string& line);

  std::size_t most_body_;
  State state_ = State::kHead;
  std::string buffer_;
  std::string body_;
  std::string error_;
  int status_ = 0;
  bool keeps_open_ = true;
  bool chunked_ = false;
  bool has_length_ = false;
  std::uint64_t left_ = 0;  // of the body, or of the chunk
};

}  // namespace rubato::elastic
