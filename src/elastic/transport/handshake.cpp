#include "elastic/transport/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json_text.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;

constexpr std::size_t kLargestMessage = 1024;  // of the handshake, before authentication

bool is_hex_of_32_bytes(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A string field of an object; nothing if it is missing or not a string.
std::optional<std::string> text_field(const json& message, const char* name) {
  const auto it = message.find(name);
  if (it == message.end() || !it->is_string()) return std::nullopt;
  return it->get<std::string>();
}

std::optional<bool> flag_field(const json& message, const char* name) {
  const auto it = message.find(name);
  if (it == message.end() || !it->is_boolean()) return std::nullopt;
  return it->get<bool>();
}

std::optional<std::string> hex_field(const json& message, const char* name) {
  auto text = text_field(message, name);
  if (text && !is_hex_of_32_bytes(*text)) return std::nullopt;
  return text;
}

// The digest in a field that hex_field() has validated.
Sha256Digest digest_of(std::string_view hex) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Sha256Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(value(hex[2 * i]) * 16 + value(hex[2 * i + 1]));
  }
  return digest;
}

// An object, or "discarded".
json parse(const Frame& frame) {
  if (frame.payload.size() > kLargestMessage) return json(json::value_t::discarded);
  json message = parse_json(frame.payload);
  return message.is_object() ? message : json(json::value_t::discarded);
}

}  // namespace

bool is_worker_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Handshake::Handshake(bool accepts, Identity identity, const Nonce& nonce, std::string peer)
    : accepts_(accepts), identity_(std::move(identity)), peer_(std::move(peer)) {
  RUBATO_CHECK(identity_.secret.size() == kSecretBytes, "the secret has the wrong length");
  RUBATO_CHECK(is_worker_id(identity_.worker), "peers would refuse this worker id");
  RUBATO_CHECK(peer_.empty() || is_worker_id(peer_), "not a valid id for a peer");
  nonces_[accepts ? 0 : 1] = to_hex(nonce);
  to_ = peer_;
}

Handshake Handshake::acceptor(Identity identity, const Nonce& nonce) {
  return Handshake(true, std::move(identity), nonce, "");
}

Handshake Handshake::connector(Identity identity, const Nonce& nonce, std::string peer) {
  return Handshake(false, std::move(identity), nonce, std::move(peer));
}

std::string Handshake::start() const {
  if (!accepts_) return {};
  return encode_frame(kChallengeFrame, compact_json(json{{"version", kWireVersion},
                                                         {"encrypt", identity_.encrypt},
                                                         {"nonce", nonces_[0]}}));
}

std::string Handshake::handle(const Frame& frame) {
  if (state_ != State::kPending) return {};
  if (accepts_) return handle_answer(frame);
  return nonces_[0].empty() ? handle_challenge(frame) : handle_welcome(frame);
}

std::string Handshake::handle_challenge(const Frame& frame) {
  const json message = parse(frame);
  if (frame.type != kChallengeFrame || message.is_discarded()) {
    return fail("the peer did not start with a challenge; is it a worker of this job?");
  }
  const auto version = message.find("version");
  if (version == message.end() || !version->is_number_integer()) {
    return fail("the challenge has no version");
  }
  if (*version != kWireVersion) {
    return fail(
        fmt::format("the peer uses protocol version {}, this program version {}; use the same "
                    "program for all workers",
                    version->dump(), kWireVersion));
  }
  const auto nonce = hex_field(message, "nonce");
  if (!nonce) return fail("the challenge lacks a nonce of 32 bytes");
  const auto encrypt = flag_field(message, "encrypt");
  if (!encrypt) return fail("the challenge does not say whether its job encrypts");
  if (*encrypt != identity_.encrypt) return fail_for_encryption();
  if (*nonce == nonces_[1]) return fail("the challenge reflects this worker's own nonce");
  nonces_[0] = *nonce;
  return encode_frame(kAnswerFrame, compact_json(json{{"encrypt", identity_.encrypt},
                                                      {"nonce", nonces_[1]},
                                                      {"worker", identity_.worker},
                                                      {"to", to_},
                                                      {"hmac", to_hex(proof(false))}}));
}

std::string Handshake::handle_answer(const Frame& frame) {
  const json message = parse(frame);
  if (frame.type != kAnswerFrame || message.is_discarded()) {
    return fail("the peer did not answer the challenge; is it a worker of this job?");
  }
  const auto nonce = hex_field(message, "nonce");
  const auto worker = text_field(message, "worker");
  const auto to = text_field(message, "to");
  const auto hmac = hex_field(message, "hmac");
  const auto encrypt = flag_field(message, "encrypt");
  if (!nonce || !worker || !to || !hmac || !encrypt) return fail("the answer lacks a field");
  if (*encrypt != identity_.encrypt) return fail_for_encryption();
  if (!is_worker_id(*worker)) return fail("the answer has an invalid worker id");
  if (*nonce == nonces_[0]) return fail("the answer reflects the challenge's nonce");
  if (!to->empty() && *to != identity_.worker) return fail("the answer is for another worker");
  nonces_[1] = *nonce;
  peer_ = *worker;
  to_ = *to;
  if (!equal_in_constant_time(digest_of(*hmac), proof(false))) {
    return fail("the peer does not hold the secret of this job");
  }
  state_ = State::kAuthenticated;
  return encode_frame(kWelcomeFrame, compact_json(json{{"worker", identity_.worker},
                                                       {"hmac", to_hex(proof(true))}}));
}

std::string Handshake::handle_welcome(const Frame& frame) {
  const json message = parse(frame);
  if (frame.type != kWelcomeFrame || message.is_discarded()) {
    return fail("the peer did not send a welcome");
  }
  const auto worker = text_field(message, "worker");
  const auto hmac = hex_field(message, "hmac");
  if (!worker || !hmac) return fail("the welcome lacks a field");
  if (!is_worker_id(*worker)) return fail("the welcome has an invalid worker id");
  if (!to_.empty() && *worker != to_) {
    return fail(fmt::format("worker '{}' answered; expected worker '{}'", *worker, to_));
  }
  peer_ = *worker;
  if (!equal_in_constant_time(digest_of(*hmac), proof(true))) {
    return fail("the peer does not hold the secret of this job");
  }
  state_ = State::kAuthenticated;
  return {};
}

std::string Handshake::fail(std::string reason) {
  state_ = State::kFailed;
  failure_ = std::move(reason);
  peer_.clear();
  return {};
}

std::string Handshake::fail_for_encryption() {
  return fail(identity_.encrypt ? "this job encrypts, the peer does not"
                                : "the peer's job encrypts, this one does not");
}

SessionKeys Handshake::keys() const {
  RUBATO_CHECK(state_ == State::kAuthenticated, "no keys before the handshake is done");
  return derive_session_keys({.secret = identity_.secret,
                              .version = kWireVersion,
                              .acceptor_nonce = nonces_[0],
                              .connector_nonce = nonces_[1],
                              .job = identity_.job,
                              .acceptor = accepts_ ? identity_.worker : peer_,
                              .connector = accepts_ ? peer_ : identity_.worker,
                              .encrypt = identity_.encrypt},
                             accepts_);
}

Sha256Digest Handshake::proof(bool by_acceptor) const {
  const std::string& connector = accepts_ ? peer_ : identity_.worker;
  const std::string& acceptor = accepts_ ? identity_.worker : peer_;
  // The connector is not sure who its peer is when it answers, so it names the worker it wants to
  // reach.
  const std::string& receiver = by_acceptor ? acceptor : to_;
  return hmac_sha256(
      identity_.secret,
      joined_fields({by_acceptor ? "rubato acceptor" : "rubato connector",
                     std::to_string(kWireVersion), identity_.encrypt ? "encrypted" : "plain",
                     nonces_[0], nonces_[1], identity_.job, connector, receiver}));
}

}  // namespace rubato::elastic
