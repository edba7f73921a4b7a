// What protects control frames (wire.h) after the handshake. Sealed frames of a direction are
// numbered, and each ends with 16 bytes that only a holder of the direction's key can compute from
// its number, type and payload: HMAC-SHA256, truncated. If the job encrypts, the payload is
// encrypted with AES-256-GCM, whose tag takes the place of the HMAC. A frame that was altered,
// repeated, left out, reordered or inserted on the way does not open, and ends the connection.
//
// A control frame of 100 bytes costs less than half a microsecond at either end (make
// bench-encryption). Workers exchange a few per second.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "elastic/transport/aead.h"
#include "elastic/transport/session_keys.h"
#include "elastic/transport/wire.h"

namespace rubato::elastic {

inline constexpr std::size_t kLargestSealedPayload = kLargestPayload - kSealBytes;

// One direction of a connection, at its sender.
class FrameSealer {
 public:
  // To encrypt, check_encryption() must have succeeded.
  FrameSealer(const SessionKey& key, bool encrypt);
  // The bytes of the next frame. The payload must have at most kLargestSealedPayload bytes.
  std::string seal(std::uint8_t type, std::string_view payload);

 private:
  SessionKey key_;
  std::unique_ptr<Aead> aead_;
  std::uint64_t next_ = 0;
};

// The same direction, at its receiver.
class FrameOpener {
 public:
  FrameOpener(const SessionKey& key, bool encrypt);
  // The next frame, as FrameReader read it; returns what was sealed. After an error, close the
  // connection: no later frame opens either.
  Result<Frame> open(const Frame& sealed);

 private:
  SessionKey key_;
  std::unique_ptr<Aead> aead_;
  std::uint64_t next_ = 0;
  bool failed_ = false;
};

}  // namespace rubato::elastic
