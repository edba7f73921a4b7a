// libFuzzer: hostile bytes into the frame reader and both ends of the handshake (make fuzz).
#include <algorithm>
#include <cstdlib>

#include "elastic/handshake.h"
#include "elastic/wire.h"

using rubato::elastic::Frame;
using rubato::elastic::FrameReader;
using rubato::elastic::Handshake;
using rubato::elastic::Nonce;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The first byte decides in what pieces the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);

  Nonce nonce;
  nonce.fill(1);
  const std::string secret(rubato::elastic::kSecretBytes, 's');
  auto acceptor = Handshake::acceptor({.secret = secret, .job = "job", .worker = "a"}, nonce);
  nonce.fill(2);
  auto connector = Handshake::connector({.secret = secret, .job = "job", .worker = "b"}, nonce, "");

  FrameReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto arrived = bytes.subspan(at, std::min(piece, bytes.size() - at));
    if (!reader.feed(arrived)) {
      require(reader.buffered_bytes() == 0 && !reader.next());
      break;
    }
    while (const auto frame = reader.next()) {
      require(frame->payload.size() <= rubato::elastic::kLargestPayload);
      acceptor.handle(*frame);
      connector.handle(*frame);
    }
    require(reader.buffered_bytes() <= at + arrived.size());
  }
  // Nobody finds a proof by trying.
  require(acceptor.state() != Handshake::State::kAuthenticated);
  require(connector.state() != Handshake::State::kAuthenticated);
  return 0;
}
