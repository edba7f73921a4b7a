#include "elastic/transport/wire.h"

#include <fmt/format.h>

#include "base/check.h"

namespace rubato::elastic {

namespace {

std::size_t payload_length(std::string_view header) {
  std::size_t length = 0;
  for (std::size_t i = 4; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(header[i]);
  return length;
}

}  // namespace

std::string encode_frame(std::uint8_t type, std::string_view payload) {
  RUBATO_CHECK(payload.size() <= kLargestPayload,
               "the payload exceeds the limit of every receiver");
  std::string frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  for (int shift = 0; shift < 32; shift += 8) {
    frame += static_cast<char>(payload.size() >> shift & 0xff);
  }
  frame += static_cast<char>(type);
  frame += payload;
  return frame;
}

Status FrameReader::feed(std::span<const std::byte> bytes) {
  if (!error_.empty()) return invalid_input(error_);
  buffer_.erase(0, begin_);
  complete_ -= begin_;
  begin_ = 0;
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (buffer_.size() - complete_ >= kFrameHeaderBytes) {
    const std::size_t length = payload_length(std::string_view(buffer_).substr(complete_));
    if (length > kLargestPayload) {
      error_ = fmt::format(
          "frame of {} bytes; at most {} are allowed: the peer is not a worker of this version",
          length, kLargestPayload);
      buffer_ = std::string();
      complete_ = 0;
      return invalid_input(error_);
    }
    if (buffer_.size() - complete_ - kFrameHeaderBytes < length) break;
    complete_ += kFrameHeaderBytes + length;
  }
  return ok_status();
}

std::optional<Frame> FrameReader::next() {
  if (begin_ == complete_) return std::nullopt;
  const std::size_t length = payload_length(std::string_view(buffer_).substr(begin_));
  Frame frame;
  frame.type = static_cast<std::uint8_t>(buffer_[begin_ + 4]);
  frame.payload = buffer_.substr(begin_ + kFrameHeaderBytes, length);
  begin_ += kFrameHeaderBytes + length;
  if (begin_ == buffer_.size()) {  // do not keep the memory of a large frame
    buffer_ = std::string();
    begin_ = 0;
    complete_ = 0;
  }
  return frame;
}

}  // namespace rubato::elastic
