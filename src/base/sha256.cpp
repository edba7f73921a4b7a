#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace rubato {

namespace {

constexpr std::array<std::uint32_t, 8> kInitial{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

alignas(16) constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kBlock = 64;

std::uint32_t load_big_endian(const std::byte* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | std::to_integer<std::uint32_t>(at[i]);
  return value;
}

bool has_sha_instructions() {
#if defined(__x86_64__)
  // __builtin_cpu_supports of GCC 12 does not know the SHA extension.
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kSha = 1U << 29;
  return (b & kSha) != 0 && __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
#else
  return false;
#endif
}

}  // namespace

// In a virtual machine, asking the processor costs more than a digest, so it is asked once.
Sha256::Sha256(Code code) {
  static const bool kFast = has_sha_instructions();
  compress_ = code == Code::kFastest && kFast ? compress_x86 : compress_portable;
  reset();
}

void Sha256::reset() {
  state_ = kInitial;
  in_block_ = 0;
  length_ = 0;
}

void Sha256::update(std::span<const std::byte> bytes) {
  length_ += bytes.size();
  if (in_block_ > 0) {
    const std::size_t taken = std::min(bytes.size(), kBlock - in_block_);
    std::copy_n(bytes.begin(), taken, block_.begin() + static_cast<std::ptrdiff_t>(in_block_));
    in_block_ += taken;
    bytes = bytes.subspan(taken);
    if (in_block_ < kBlock) return;
    compress_(state_, block_.data(), 1);
    in_block_ = 0;
  }
  const std::size_t whole = bytes.size() / kBlock;
  if (whole > 0) compress_(state_, bytes.data(), whole);
  bytes = bytes.subspan(whole * kBlock);
  std::copy(bytes.begin(), bytes.end(), block_.begin());
  in_block_ = bytes.size();
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Sha256Digest Sha256::finish() {
  const std::uint64_t bits = length_ * 8;
  std::array<std::byte, kBlock + 8> padding{std::byte{0x80}};
  // Pad to the last 8 bytes of a block, then append the length.
  const std::size_t zeros_end = in_block_ < 56 ? 56 - in_block_ : 120 - in_block_;
  for (std::size_t i = 0; i < 8; ++i) {
    padding[zeros_end + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  }
  update(std::span(padding).first(zeros_end + 8));
  Sha256Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  reset();
  return digest;
}

void Sha256::compress_portable(State& state, const std::byte* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kBlock) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t t = 0; t < 16; ++t) w[t] = load_big_endian(blocks + 4 * t);
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 =
          std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const State add{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)
// The instructions keep the state as ABEF and CDGH; four rounds consume four words of the schedule.
[[gnu::target("sha,sse4.1,ssse3")]] void Sha256::compress_x86(State& state, const std::byte* blocks,
                                                              std::size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const words = reinterpret_cast<__m128i*>(state.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, blocks += kBlock) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    const auto* const input = reinterpret_cast<const __m128i*>(blocks);
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(_mm_loadu_si128(input + i), swap);
    for (int t = 0; t < 16; ++t) {
      __m128i& now = w[t % 4];
      if (t >= 4) {
        const __m128i previous = w[(t + 3) % 4];
        now = _mm_sha256msg1_epu32(now, w[(t + 1) % 4]);
        now = _mm_add_epi32(now, _mm_alignr_epi8(previous, w[(t + 2) % 4], 4));
        now = _mm_sha256msg2_epu32(now, previous);
      }
      const __m128i constants =
          _mm_load_si128(reinterpret_cast<const __m128i*>(kRound.data() + 4 * t));
      const __m128i sum = _mm_add_epi32(now, constants);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#else
void Sha256::compress_x86(State& state, const std::byte* blocks, std::size_t count) {
  compress_portable(state, blocks, count);
}
#endif

Sha256Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::array<std::byte, kBlock> padded{};
  if (key.size() > kBlock) {
    Sha256 hash;
    hash.update(key);
    const Sha256Digest digest = hash.finish();
    std::memcpy(padded.data(), digest.data(), digest.size());
  } else {
    std::copy_n(std::as_bytes(std::span(key)).begin(), key.size(), padded.begin());
  }
  const auto masked = [&padded](std::byte mask) {
    std::array<std::byte, kBlock> out;
    std::ranges::transform(padded, out.begin(), [mask](std::byte b) { return b ^ mask; });
    return out;
  };
  Sha256 inner;
  inner.update(masked(std::byte{0x36}));
  inner.update(message);
  Sha256 outer;
  outer.update(masked(std::byte{0x5c}));
  const Sha256Digest inner_digest = inner.finish();
  outer.update(std::as_bytes(std::span(inner_digest)));
  return outer.finish();
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return to_hex(hash.finish());
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool equal_in_constant_time(const Sha256Digest& a, const Sha256Digest& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
    asm volatile("" : "+r"(difference));  // otherwise a compiler may leave the loop early
  }
  return difference == 0;
}

}  // namespace rubato
