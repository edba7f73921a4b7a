// Frames on the control connections between workers:
//   payload length (u32, little-endian, at most 1 MiB), type (u8), payload (JSON text)
// Input from a connection is hostile until proven otherwise: a frame that breaks the rules ends the
// connection, and memory grows only with bytes that actually arrived.
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

// The payload must have at most kLargestPayload bytes.
std::string encode_frame(std::uint8_t type, std::string_view payload);

// Assembles frames from a stream of bytes.
class FrameReader {
 public:
  // Takes received bytes. After an error, close the connection: the rest is dropped, and every
  // later call returns the same error. Call next() until it returns nothing before feeding more;
  // then at most one frame and the bytes of one call are buffered.
  Status feed(std::span<const std::byte> bytes);
  // The next complete frame.
  std::optional<Frame> next();

  std::size_t buffered_bytes() const { return buffer_.size() - begin_; }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;     // of the first frame that was not returned yet
  std::size_t complete_ = 0;  // end of the last complete frame
  std::string error_;
};

}  // namespace rubato::elastic
