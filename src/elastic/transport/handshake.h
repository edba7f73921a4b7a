// Before anything else is exchanged, both ends of a control connection prove that they hold the
// job's secret. There are three frames:
//   acceptor  -> connector  CHALLENGE {"version", "encrypt", "nonce"}
//   connector -> acceptor   ANSWER    {"encrypt", "nonce", "worker", "to", "hmac"}
//   acceptor  -> connector  WELCOME   {"worker", "hmac"}
// An hmac covers the sender's role, the version, whether the job encrypts, both nonces, the job's
// name and the ids of both workers. Both ends choose a fresh nonce, so recorded frames cannot be
// replayed. The roles differ, so frames cannot be reflected. "to" names the worker the connector
// wants to reach, so an answer cannot be relayed to another worker. "encrypt" is the job's setting:
// a worker refuses a peer with the other one, and whoever changes the word on the way only makes
// the proof fail, so nobody can talk two workers out of encryption.
//
// Afterwards both ends have the keys of this connection (session_keys.h), which protect what
// follows: control frames always (frame_seal.h), bulk data if the job encrypts (sealed_records.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "elastic/transport/secret.h"
#include "elastic/transport/session_keys.h"
#include "elastic/transport/wire.h"

namespace rubato::elastic {

inline constexpr std::uint8_t kChallengeFrame = 1;
inline constexpr std::uint8_t kAnswerFrame = 2;
inline constexpr std::uint8_t kWelcomeFrame = 3;
inline constexpr int kWireVersion = 2;

// Worker ids: 1 to 64 letters, digits, '.', '_', '-'.
bool is_worker_id(std::string_view text);

// A pure state machine: frames in, bytes to send out. It performs no I/O itself.
class Handshake {
 public:
  struct Identity {
    std::string secret;
    std::string job;
    std::string worker;    // this worker's own id
    bool encrypt = false;  // a setting of the job
  };
  enum class State { kPending, kAuthenticated, kFailed };

  // The nonce must be fresh for each connection (random_nonce()).
  static Handshake acceptor(Identity identity, const Nonce& nonce);
  // `peer` is the id of the worker to reach; empty if unknown.
  static Handshake connector(Identity identity, const Nonce& nonce, std::string peer);

  // The first bytes to send: the acceptor's challenge; nothing for the connector.
  std::string start() const;
  // Takes a frame from the peer and returns the bytes to send, if any. Frames after the handshake
  // are ignored. If it failed, close the connection.
  std::string handle(const Frame& frame);

  State state() const { return state_; }
  const std::string& peer() const { return peer_; }        // proven once authenticated
  const std::string& failure() const { return failure_; }  // why it failed
  SessionKeys keys() const;                                // once authenticated

 private:
  Handshake(bool accepts, Identity identity, const Nonce& nonce, std::string peer);
  std::string handle_challenge(const Frame& frame);
  std::string handle_answer(const Frame& frame);
  std::string handle_welcome(const Frame& frame);
  std::string fail(std::string reason);
  std::string fail_for_encryption();
  Sha256Digest proof(bool by_acceptor) const;

  bool accepts_;
  Identity identity_;
  std::array<std::string, 2> nonces_;  // acceptor's, connector's; in hexadecimal
  std::string peer_;                   // as claimed until authenticated
  std::string to_;                     // the worker the connector wants to reach
  State state_ = State::kPending;
  std::string failure_;
};

}  // namespace rubato::elastic
