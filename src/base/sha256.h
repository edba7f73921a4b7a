// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). Uses the processor's SHA instructions where
// available. Our own implementation, because the training runtime must build without OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rubato {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  enum class Code { kFastest, kPortable };  // both give the same digest; tests compare them
  explicit Sha256(Code code = Code::kFastest);

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // Returns the digest of all bytes so far and resets the object.
  Sha256Digest finish();

 private:
  using State = std::array<std::uint32_t, 8>;
  using Compress = void (*)(State& state, const std::byte* blocks, std::size_t count);
  static void compress_portable(State& state, const std::byte* blocks, std::size_t count);
  static void compress_x86(State& state, const std::byte* blocks, std::size_t count);
  void reset();

  Compress compress_;
  State state_{};
  std::array<std::byte, 64> block_{};  // an incomplete block
  std::size_t in_block_ = 0;
  std::uint64_t length_ = 0;  // bytes
};

Sha256Digest hmac_sha256(std::string_view key, std::string_view message);

// The digest of a text, in hexadecimal.
std::string sha256_hex(std::string_view text);

// Lower-case hexadecimal.
std::string to_hex(std::span<const std::uint8_t> bytes);

// Takes the same time wherever the digests differ, so that timing does not reveal a secret digest
// byte by byte.
bool equal_in_constant_time(const Sha256Digest& a, const Sha256Digest& b);

}  // namespace rubato
