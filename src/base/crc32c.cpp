#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rubato {

namespace {

using Table = std::array<std::uint32_t, 256>;

// tables[k][b]: the remainder of byte b followed by k zero bytes. Allows eight bytes per
// iteration.
using Tables = std::array<Table, 8>;
constexpr Tables make_tables(std::uint32_t reversed_polynomial) {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t remainder = b;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? reversed_polynomial : 0);
    }
    tables[0][b] = remainder;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
    }
  }
  return tables;
}
constexpr Tables kCastagnoli = make_tables(0x82f63b78);
constexpr Tables kZip = make_tables(0xedb88320);

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(std::span<const std::byte> bytes,
                                                     std::uint32_t previous) {
  std::uint64_t crc = ~previous;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    crc = _mm_crc32_u64(crc, word);
    bytes = bytes.subspan(8);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const std::byte b : bytes) rest = _mm_crc32_u8(rest, std::to_integer<std::uint8_t>(b));
  return ~rest;
}
#endif

std::uint32_t by_tables(const Tables& tables, std::span<const std::byte> bytes,
                        std::uint32_t previous) {
  std::uint32_t crc = ~previous;
  const auto at = [&bytes](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  while (bytes.size() >= 8) {
    crc ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    crc = tables[7][crc & 0xff] ^ tables[6][(crc >> 8) & 0xff] ^ tables[5][(crc >> 16) & 0xff] ^
          tables[4][crc >> 24] ^ tables[3][at(4)] ^ tables[2][at(5)] ^ tables[1][at(6)] ^
          tables[0][at(7)];
    bytes = bytes.subspan(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ tables[0][(crc ^ at(i)) & 0xff];
  }
  return ~crc;
}

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t previous) {
  return by_tables(kCastagnoli, bytes, previous);
}

std::uint32_t crc32(std::span<const std::byte> bytes) { return by_tables(kZip, bytes, 0); }

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(bytes, previous);
#endif
  return crc32c_portable(bytes, previous);
}

}  // namespace rubato
