// The keys of one connection between two workers. Both ends derive them from the job's secret and
// from what they agreed on in the handshake (handshake.h), so every connection has keys of its own,
// and each direction has a key for its control frames (frame_seal.h) and one for its bulk data
// (sealed_records.h).
//
// The keys depend on nothing but the secret and the handshake, which can be recorded: whoever
// learns the secret later can read what was recorded before (no forward secrecy). A job's secret
// lives as long as the job.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/sha256.h"

namespace rubato::elastic {

using SessionKey = Sha256Digest;  // 256 bits

// HKDF with SHA-256 (RFC 5869), for a key of 32 bytes.
SessionKey derive_key(std::string_view secret, std::string_view salt, std::string_view info);
// The key that follows when one has been used for long enough.
SessionKey next_key(const SessionKey& key);

// What both ends know after the handshake.
struct SessionFacts {
  std::string secret;
  int version = 0;
  std::string acceptor_nonce;  // in hexadecimal
  std::string connector_nonce;
  std::string job;
  std::string acceptor;  // worker ids
  std::string connector;
  bool encrypt = false;
};

struct SessionKeys {
  struct Direction {
    SessionKey frames{};
    SessionKey bulk{};
  };
  Direction out;         // what this worker sends
  Direction in;          // what it receives
  bool encrypt = false;  // otherwise control frames are authenticated only, and bulk data are plain
};
SessionKeys derive_session_keys(const SessionFacts& facts, bool for_acceptor);

// The fields one after the other, each preceded by its length, so that no two lists give the same
// bytes.
std::string joined_fields(std::initializer_list<std::string_view> fields);

}  // namespace rubato::elastic
