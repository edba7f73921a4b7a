// Authenticated encryption with AES-256-GCM for one direction of a connection. Messages are
// numbered from 0, and the number is the nonce, so a message that is repeated, left out or in
// another place does not open. A key must not be used by two of these objects for sealing.
//
// A message passes through in pieces. GCM decrypts before it verifies: what update() writes while
// opening is nobody's until open_end() has returned true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "elastic/transport/libcrypto.h"
#include "elastic/transport/session_keys.h"

namespace rubato::elastic {

inline constexpr std::size_t kSealBytes = 16;  // what authenticates a message

class Aead {
 public:
  enum class Use { kSeal, kOpen };
  // check_encryption() must have succeeded.
  Aead(const SessionKey& key, Use use);
  Aead(const Aead&) = delete;
  Aead& operator=(const Aead&) = delete;
  ~Aead();

  // Begins the next message. `clear` is authenticated but not encrypted. All functions return false
  // if the library fails, which ends the use of this object.
  bool begin(std::span<const std::byte> clear = {});
  // `out` may be the place of `in` itself but must not overlap it otherwise.
  bool update(std::span<const std::byte> in, std::byte* out);
  bool seal_end(std::span<std::byte, kSealBytes> seal);
  // False also if the message is not the one that was sealed.
  bool open_end(std::span<const std::byte, kSealBytes> seal);

  // From the next message on, which has the number 0 again.
  bool set_key(const SessionKey& key);

 private:
  const Libcrypto& crypto_;
  Libcrypto::Context* context_;
  int encrypt_;
  std::uint64_t next_ = 0;  // number of the next message
  bool good_ = true;
};

}  // namespace rubato::elastic
