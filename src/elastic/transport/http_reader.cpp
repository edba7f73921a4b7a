#include "elastic/transport/http_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kMostHead = 32 * 1024;
constexpr std::size_t kMostLine = 1024;  // of a chunk's size or a trailer

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

template <typename T>
bool parse_number(std::string_view text, int base, T& number) {
  const char* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, number, base);
  return !text.empty() && problem == std::errc() && at == end;
}

}  // namespace

Status HttpReader::fail(const std::string& what) {
  if (error_.empty()) error_ = what;
  return Error{ErrorCode::kIo, error_};
}

Status HttpReader::feed(std::string_view bytes) {
  if (!error_.empty()) return fail("");
  buffer_ += bytes;
  while (advance()) {
  }
  if (error_.empty() && complete() && !buffer_.empty()) {
    return fail("the server sent more than it was asked for");
  }
  return error_.empty() ? ok_status() : fail("");
}

Status HttpReader::end() {
  if (!error_.empty()) return fail("");
  if (state_ == State::kUntilEnd) state_ = State::kDone;
  keeps_open_ = false;
  return complete() ? ok_status() : fail("the connection was closed in the middle of an answer");
}

bool HttpReader::advance() {
  std::string line;
  switch (state_) {
    case State::kHead:
      return take_head();
    case State::kLength:
      return take_of_body(State::kDone);
    case State::kUntilEnd:
      left_ = buffer_.size();
      if (left_ == 0) return false;
      return take_of_body(State::kUntilEnd);
    case State::kChunkSize:
      return take_chunk_size();
    case State::kChunk:
      return take_of_body(State::kChunkEnd);
    case State::kChunkEnd:
      if (!take_line(line)) return false;
      if (!line.empty()) {
        static_cast<void>(fail("a chunk of the answer is longer than its length"));
        return false;
      }
      state_ = State::kChunkSize;
      return true;
    case State::kTrailer:
      if (!take_line(line)) return false;
      if (line.empty()) state_ = State::kDone;
      return true;
    case State::kDone:
      break;
  }
  return false;
}

bool HttpReader::take_line(std::string& line) {
  const std::size_t end = buffer_.find("\r\n");
  if (end == std::string::npos) {
    if (buffer_.size() > kMostLine) static_cast<void>(fail("a line of the answer is too long"));
    return false;
  }
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

bool HttpReader::take_head() {
  const std::size_t end = buffer_.find("\r\n\r\n");
  if (end == std::string::npos) {
    // A server of another protocol is found out before it has sent a lot.
    constexpr std::string_view kBegin = "HTTP/1.";
    const std::size_t known = std::min(buffer_.size(), kBegin.size());
    if (std::string_view(buffer_).substr(0, known) != kBegin.substr(0, known)) {
      static_cast<void>(fail("the answer is not HTTP"));
    } else if (buffer_.size() > kMostHead) {
      static_cast<void>(fail("the head of the answer is too long"));
    }
    return false;
  }
  const std::string head = buffer_.substr(0, end);
  buffer_.erase(0, end + 4);
  std::string_view rest = head;
  const auto next_line = [&rest] {
    const std::size_t at = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 2, rest.size()));
    return line;
  };
  const std::string_view first = next_line();
  const bool http = first.starts_with("HTTP/1.1 ") || first.starts_with("HTTP/1.0 ");
  if (!http || first.size() < 12 || !parse_number(first.substr(9, 3), 10, status_) ||
      status_ < 100 || status_ > 599) {
    static_cast<void>(fail("the answer is not HTTP"));
    return false;
  }
  if (first[7] == '0') keeps_open_ = false;
  if (status_ < 200) {  // the real answer follows
    status_ = 0;
    return true;
  }
  while (!rest.empty()) {
    const std::string problem = take_field(next_line());
    if (problem.empty()) continue;
    static_cast<void>(fail(problem));
    return false;
  }
  const bool empty = status_ == 204 || status_ == 304 || (has_length_ && !chunked_ && left_ == 0);
  state_ = empty         ? State::kDone
           : chunked_    ? State::kChunkSize
           : has_length_ ? State::kLength
                         : State::kUntilEnd;
  if (state_ == State::kUntilEnd) keeps_open_ = false;
  return true;
}

std::string HttpReader::take_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return "a header of the answer has no ':'";
  const std::string name = lower(line.substr(0, colon));
  const std::string value = lower(trim(line.substr(colon + 1)));
  if (name == "connection" && value.find("close") != std::string::npos) keeps_open_ = false;
  if (name == "transfer-encoding") {
    if (value != "chunked") return fmt::format("unknown transfer encoding '{}'", value);
    chunked_ = true;
  }
  if (name == "content-encoding" && value != "identity") {
    return fmt::format("unknown content encoding '{}'", value);
  }
  if (name == "content-length") {
    const std::uint64_t before = left_;
    if (!parse_number(value, 10, left_) || (has_length_ && left_ != before)) {
      return "the length of the answer is not a number";
    }
    has_length_ = true;
    if (left_ > most_body_) return fmt::format("an answer of {} bytes is too long", left_);
  }
  return "";
}

bool HttpReader::take_chunk_size() {
  std::string line;
  if (!take_line(line)) return false;
  const std::string_view size = trim(std::string_view(line).substr(0, line.find(';')));
  if (!parse_number(size, 16, left_)) {
    static_cast<void>(fail("the length of a chunk is not a number"));
    return false;
  }
  state_ = left_ == 0 ? State::kTrailer : State::kChunk;
  return true;
}

// Takes what is there of `left_` bytes, and goes on in `next` after the last of them.
bool HttpReader::take_of_body(State next) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, buffer_.size()));
  if (count > most_body_ - std::min(most_body_, body_.size())) {
    static_cast<void>(fail(fmt::format("the answer is longer than {} bytes", most_body_)));
    return false;
  }
  body_.append(buffer_, 0, count);
  buffer_.erase(0, count);
  left_ -= count;
  if (left_ > 0) return false;
  state_ = next;
  return true;
}

}  // namespace rubato::elastic
