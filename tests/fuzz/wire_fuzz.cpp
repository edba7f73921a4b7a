// libFuzzer: feeds hostile bytes to the frame reader, to both ends of the handshake and to the
// header decoder of the streams between nodes (make fuzz).
#include <algorithm>
#include <cstdlib>

#include "elastic/memory/board.h"
#include "elastic/transport/bridge_frame.h"
#include "elastic/transport/handshake.h"
#include "elastic/transport/wire.h"

using rubato::elastic::Frame;
using rubato::elastic::FrameReader;
using rubato::elastic::Handshake;
using rubato::elastic::Nonce;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// A bridge accepts exactly what was expected, and encoding a header loses nothing.
void check_bridge_headers(std::span<const std::byte> bytes) {
  using rubato::elastic::BridgeExpectation;
  using rubato::elastic::BridgeFrame;
  constexpr std::size_t kBytes = rubato::elastic::kBridgeHeaderBytes;
  BridgeExpectation expected{
      .view = 1, .arrived = -1, .reduced = -1, .arrived_bytes = 64, .reduced_bytes = 32};
  for (; bytes.size() >= kBytes; bytes = bytes.subspan(kBytes)) {
    const auto header = rubato::elastic::decode_bridge_header(bytes.first<kBytes>());
    if (!header) break;
    require(rubato::elastic::decode_bridge_header(rubato::elastic::encode(*header)) == header);
    require(header->next_members >= 0 && header->next_members <= rubato::elastic::kMaxWorkers);
    if (*rubato::elastic::problem_of(*header, expected) != '\0') break;
    require(header->view == 1);
    if (header->type == BridgeFrame::kArrived) {
      require(header->step == expected.arrived + 1 && header->payload_bytes == 64);
      ++expected.arrived;
    } else {
      require(header->type == BridgeFrame::kReduced && header->payload_bytes == 32);
      require(header->step == expected.reduced + 1 && header->step <= expected.arrived);
      ++expected.reduced;
    }
  }
}

}  // namespace

// The first byte sets the size of the pieces in which the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  check_bridge_headers(bytes);

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
  // Guessing must never produce a valid proof.
  require(acceptor.state() != Handshake::State::kAuthenticated);
  require(connector.state() != Handshake::State::kAuthenticated);
  return 0;
}
