#include "elastic/transport/frame_seal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"

namespace rubato::elastic {

namespace {

std::string_view seal_of(const SessionKey& key, std::uint64_t number, std::uint8_t type,
                         std::string_view payload, Sha256Digest& digest) {
  std::string message;
  message.reserve(9 + payload.size());
  for (int shift = 0; shift < 64; shift += 8) message += static_cast<char>(number >> shift & 0xff);
  message += static_cast<char>(type);
  message += payload;
  digest = hmac_sha256({reinterpret_cast<const char*>(key.data()), key.size()}, message);
  return {reinterpret_cast<const char*>(digest.data()), kSealBytes};
}

}  // namespace

FrameSealer::FrameSealer(const SessionKey& key, bool encrypt) : key_(key) {
  if (encrypt) aead_ = std::make_unique<Aead>(key, Aead::Use::kSeal);
}

std::string FrameSealer::seal(std::uint8_t type, std::string_view payload) {
  std::string sealed(payload);
  if (aead_) {
    const std::array clear{static_cast<std::byte>(type)};
    const auto bytes = std::as_writable_bytes(std::span(sealed));
    std::array<std::byte, kSealBytes> seal{};
    const bool done =
        aead_->begin(clear) && aead_->update(bytes, bytes.data()) && aead_->seal_end(seal);
    RUBATO_CHECK(done, "libcrypto cannot encrypt");
    sealed.append(reinterpret_cast<const char*>(seal.data()), seal.size());
  } else {
    Sha256Digest digest;
    sealed += seal_of(key_, next_++, type, payload, digest);
  }
  return encode_frame(type, sealed);
}

FrameOpener::FrameOpener(const SessionKey& key, bool encrypt) : key_(key) {
  if (encrypt) aead_ = std::make_unique<Aead>(key, Aead::Use::kOpen);
}

Result<Frame> FrameOpener::open(const Frame& sealed) {
  const std::string_view all = sealed.payload;
  if (!failed_ && all.size() >= kSealBytes) {
    const std::string_view seal = all.substr(all.size() - kSealBytes);
    Frame frame{.type = sealed.type,
                .payload = std::string(all.substr(0, all.size() - kSealBytes))};
    if (aead_) {
      const std::array clear{static_cast<std::byte>(sealed.type)};
      const auto bytes = std::as_writable_bytes(std::span(frame.payload));
      if (aead_->begin(clear) && aead_->update(bytes, bytes.data()) &&
          aead_->open_end(std::as_bytes(std::span(seal)).first<kSealBytes>())) {
        return frame;
      }
    } else {
      // Both to the length of a digest, which the comparison takes.
      Sha256Digest expected{};
      Sha256Digest found{};
      Sha256Digest digest;
      std::ranges::copy(seal_of(key_, next_++, frame.type, frame.payload, digest),
                        expected.begin());
      std::ranges::copy(seal, found.begin());
      if (equal_in_constant_time(expected, found)) return frame;
    }
  }
  failed_ = true;
  return invalid_input(
      fmt::format("a control frame of type {} was altered, repeated, lost or inserted on the way",
                  sealed.type));
}

}  // namespace rubato::elastic
