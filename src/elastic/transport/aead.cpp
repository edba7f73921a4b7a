#include "elastic/transport/aead.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace rubato::elastic {

namespace {

// Of OpenSSL's evp.h; part of its binary interface.
constexpr int kGetTag = 0x10;
constexpr int kSetTag = 0x11;
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kMostAtOnce = 1 << 30;  // lengths are ints

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

Aead::Aead(const SessionKey& key, Use use)
    : crypto_(*libcrypto()), context_(crypto_.new_context()), encrypt_(use == Use::kSeal ? 1 : 0) {
  RUBATO_CHECK(context_ != nullptr, "out of memory");
  good_ = crypto_.init(context_, crypto_.aes_256_gcm(), nullptr, nullptr, nullptr, encrypt_) == 1;
  set_key(key);
}

Aead::~Aead() { crypto_.free_context(context_); }

bool Aead::set_key(const SessionKey& key) {
  good_ = good_ && crypto_.init(context_, nullptr, nullptr, key.data(), nullptr, encrypt_) == 1;
  next_ = 0;
  return good_;
}

bool Aead::begin(std::span<const std::byte> clear) {
  std::array<unsigned char, kNonceBytes> nonce{};
  for (std::size_t i = 0; i < 8; ++i) {
    nonce[kNonceBytes - 1 - i] = static_cast<unsigned char>(next_ >> 8 * i);
  }
  ++next_;
  good_ = good_ && crypto_.init(context_, nullptr, nullptr, nullptr, nonce.data(), encrypt_) == 1;
  int count = 0;
  if (!clear.empty()) {
    good_ = good_ && crypto_.update(context_, nullptr, &count, raw(clear.data()),
                                    static_cast<int>(clear.size())) == 1;
  }
  return good_;
}

bool Aead::update(std::span<const std::byte> in, std::byte* out) {
  while (good_ && !in.empty()) {
    const std::size_t taken = std::min(in.size(), kMostAtOnce);
    int count = 0;
    good_ =
        crypto_.update(context_, raw(out), &count, raw(in.data()), static_cast<int>(taken)) == 1;
    in = in.subspan(taken);
    out += taken;
  }
  return good_;
}

bool Aead::seal_end(std::span<std::byte, kSealBytes> seal) {
  int count = 0;
  good_ = good_ && crypto_.final(context_, raw(seal.data()), &count) == 1 &&
          crypto_.control(context_, kGetTag, kSealBytes, seal.data()) == 1;
  return good_;
}

bool Aead::open_end(std::span<const std::byte, kSealBytes> seal) {
  std::array<std::byte, kSealBytes> copy;
  std::ranges::copy(seal, copy.begin());
  int count = 0;
  unsigned char none = 0;
  good_ = good_ && crypto_.control(context_, kSetTag, kSealBytes, copy.data()) == 1 &&
          crypto_.final(context_, &none, &count) == 1;
  return good_;
}

}  // namespace rubato::elastic
