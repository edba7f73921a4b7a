#include "elastic/transport/session_keys.h"

#include <utility>

namespace rubato::elastic {

namespace {

std::string_view text_of(const SessionKey& key) {
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

// The first block of HKDF-Expand, which is as long as a key.
SessionKey expand(const SessionKey& pseudorandom, std::string_view info) {
  return hmac_sha256(text_of(pseudorandom), std::string(info) + '\x01');
}

}  // namespace

SessionKey derive_key(std::string_view secret, std::string_view salt, std::string_view info) {
  return expand(hmac_sha256(salt, secret), info);
}

SessionKey next_key(const SessionKey& key) { return expand(key, "rubato next key"); }

SessionKeys derive_session_keys(const SessionFacts& facts, bool for_acceptor) {
  const std::string salt = facts.acceptor_nonce + facts.connector_nonce;
  const auto key = [&](std::string_view sender, std::string_view purpose) {
    return derive_key(facts.secret, salt,
                      joined_fields({"rubato session", std::to_string(facts.version), purpose,
                                     sender, facts.encrypt ? "encrypted" : "plain", facts.job,
                                     facts.acceptor, facts.connector}));
  };
  const auto direction = [&](std::string_view sender) {
    return SessionKeys::Direction{.frames = key(sender, "frames"), .bulk = key(sender, "bulk")};
  };
  SessionKeys keys{
      .out = direction("acceptor"), .in = direction("connector"), .encrypt = facts.encrypt};
  if (!for_acceptor) std::swap(keys.out, keys.in);
  return keys;
}

std::string joined_fields(std::initializer_list<std::string_view> fields) {
  std::string joined;
  for (const std::string_view field : fields) {
    joined += std::to_string(field.size());
    joined += ':';
    joined += field;
  }
  return joined;
}

}  // namespace rubato::elastic
