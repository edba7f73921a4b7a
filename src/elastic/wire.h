// Frames on the control connections between workers:
//   payload length (u32, little-endian, at most 1 MiB), type (u8), payload (JSON text)
// What comes from a connection is hostile until proven otherwise: a frame that breaks the rules
// ends the connection, and memory grows only with bytes that really arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::elastic {

inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kLargestPayload = 1 << 20;

// Types 1 to 15 belong to the handshake (handshake.h).
struct Frame {
  std::uint8_t type = 0;
  std::string payload;
};

// The payload has at most kLargestPayload bytes.
std::string encode_frame(std::uint8_t type, std::string_view payload);

// Puts a stream of bytes together to frames.
class FrameReader {
 public:
  // Takes what arrived. An error means: close the connection; all that is left is dropped, and
  // every later call returns the error again. Call next() until it has nothing before feeding more:
  // then at most one frame and what one call brought are held.
  Status feed(std::span<const std::byte> bytes);
  // The next complete frame.
  std::optional<Frame> next();

  std::size_t buffered_bytes() const { return buffer_.size() - begin_; }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;     // of the first frame that was not handed out
  std::size_t complete_ = 0;  // end of the last complete frame
  std::string error_;
};

}  // namespace rubato::elastic
