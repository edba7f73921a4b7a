#include "control/session.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/text.h"

namespace rubato::control {

namespace {

// EXPIRES.KIND.TENANT, where the tenant's name is hexadecimal: a cookie has few characters.
std::string claim_of(const Session& session) {
  std::string hex;
  for (const char c : session.tenant) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return fmt::format("{}.{}.{}", static_cast<std::int64_t>(session.expires_at),
                     session.admin ? "admin" : "tenant", hex);
}

Sha256Digest signature_of(std::string_view claim, std::string_view token_version,
                          std::string_view key) {
  return hmac_sha256(key, fmt::format("{}\n{}", claim, token_version));
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto digit = [&](char c) { return std::string_view("0123456789abcdef").find(c); };
    const std::size_t high = digit(hex[i]);
    const std::size_t low = digit(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    text += static_cast<char>(high * 16 + low);
  }
  return text;
}

}  // namespace

std::string signed_session(const Session& session, std::string_view token_version,
                           std::string_view key) {
  const std::string claim = claim_of(session);
  return claim + "." + to_hex(signature_of(claim, token_version, key));
}

std::optional<Session> claimed_session(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '.');
  if (parts.size() != 4 || (parts[1] != "admin" && parts[1] != "tenant")) return std::nullopt;
  const auto expires = parse_int(std::string(parts[0]));
  const auto tenant = from_hex(parts[2]);
  if (!expires || *expires < 0 || !tenant) return std::nullopt;
  return Session{
      .tenant = *tenant, .admin = parts[1] == "admin", .expires_at = static_cast<double>(*expires)};
}

bool is_signed(std::string_view text, std::string_view token_version, std::string_view key) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return false;
  const auto given = from_hex(text.substr(dot + 1));
  Sha256Digest digest{};
  if (!given || given->size() != digest.size()) return false;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>((*given)[i]);
  }
  return equal_in_constant_time(digest, signature_of(text.substr(0, dot), token_version, key));
}

}  // namespace rubato::control
