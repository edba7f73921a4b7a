#include "base/base64.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace rubato {

namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kLetters.size(); ++i) {
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}
constexpr std::array<std::int8_t, 256> kValues = make_values();

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const unsigned char byte = at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i])
                                                       : static_cast<unsigned char>(0);
      group = group << 8 | byte;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool padding = at + i > bytes.size();
      text += padding ? '=' : kLetters[group >> (18 - 6 * i) & 63];
    }
  }
  return text;
}

std::optional<std::string> parse_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const std::size_t letters = last ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const int value = i < letters ? kValues[static_cast<unsigned char>(text[at + i])] : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // Bits that stand for no byte must be zero, so that every text has one meaning.
    if (last && padding > 0 && (group & (padding == 1 ? 0xffU : 0xffffU)) != 0) return std::nullopt;
    for (std::size_t i = 0; i + 1 < letters; ++i) {
      bytes += static_cast<char>(group >> (16 - 8 * i) & 0xff);
    }
  }
  return bytes;
}

}  // namespace rubato
