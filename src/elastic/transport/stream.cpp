#include "elastic/transport/stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "elastic/transport/frame_seal.h"
#include "elastic/transport/mesh.h"
#include "elastic/transport/socket_bytes.h"
#include "elastic/transport/wire.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kDialTime = std::chrono::seconds(1);
constexpr int kLookMilliseconds = 10;
constexpr std::size_t kLargestGreeting = 4096;

Error dial_error(const WorkerAddress& peer, const std::string& what) {
  return {ErrorCode::kIo,
          fmt::format("stream to worker {} at {}:{}: {}", peer.id, peer.host, peer.port, what)};
}

// The opening of a stream, which must not hang if the other side does.
class Greeting {
 public:
  Greeting(int socket, const std::atomic<bool>& give_up) : socket_(socket), give_up_(give_up) {}

  bool send(const std::string& text) const {  // a few bytes, which fit into any socket buffer
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  bool wait(short what) const {
    while (!give_up_ && steady_clock::now() < deadline_) {
      pollfd entry{.fd = socket_, .events = what, .revents = 0};
      if (::poll(&entry, 1, kLookMilliseconds) == 1) return true;
    }
    return false;
  }
  bool receive(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      if (!wait(POLLIN)) return false;
      const ssize_t n = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  // Reads exactly one frame; leaves what follows unread.
  std::optional<Frame> receive_frame() const {
    std::array<std::byte, kFrameHeaderBytes> header;
    if (!receive(header)) return std::nullopt;
    std::size_t length = 0;
    for (std::size_t i = 4; i-- > 0;) {
      length = length << 8 | std::to_integer<std::size_t>(header[i]);
    }
    if (length > kLargestGreeting) return std::nullopt;
    Frame frame{.type = std::to_integer<std::uint8_t>(header[4]),
                .payload = std::string(length, '\0')};
    if (!receive(std::as_writable_bytes(std::span(frame.payload)))) return std::nullopt;
    return frame;
  }

 private:
  int socket_;
  const std::atomic<bool>& give_up_;
  steady_clock::time_point deadline_ = steady_clock::now() + kDialTime;
};

}  // namespace

Stream::Stream(Descriptor socket, const SessionKeys& keys) : socket_(std::move(socket)) {
  if (keys.encrypt) {
    writer_ = std::make_unique<RecordWriter>(socket_.get(), keys.out.bulk);
    reader_ = std::make_unique<RecordReader>(socket_.get(), keys.in.bulk);
  }
  const int flags = fcntl(socket_.get(), F_GETFL);
  fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK);
  const int yes = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Result<Stream> Stream::dial(const WorkerAddress& peer, const Handshake::Identity& identity,
                            const nlohmann::json& purpose, const std::atomic<bool>& give_up) {
  if (identity.encrypt) {
    const Status able = check_encryption();
    if (!able.ok()) return able.error();
  }
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(peer.port));
  if (!socket.valid() || inet_pton(AF_INET, peer.host.c_str(), &address.sin_addr) != 1) {
    return dial_error(peer, "cannot create a socket, or not an IPv4 address");
  }
  const Greeting greeting(socket.get(), give_up);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINPROGRESS) return dial_error(peer, std::strerror(errno));
    int code = ETIMEDOUT;
    socklen_t size = sizeof code;
    if (greeting.wait(POLLOUT)) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return dial_error(peer, std::strerror(code));
  }
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const Result<Nonce> nonce = random_nonce();
  if (!nonce.ok()) return nonce.error();
  Handshake handshake = Handshake::connector(identity, *nonce, std::to_string(peer.id));
  while (handshake.state() == Handshake::State::kPending) {
    const std::optional<Frame> frame = greeting.receive_frame();
    if (!frame) return dial_error(peer, "no handshake");
    if (!greeting.send(handshake.handle(*frame))) return dial_error(peer, "the connection broke");
  }
  if (handshake.state() == Handshake::State::kFailed) return dial_error(peer, handshake.failure());
  constexpr auto kType = static_cast<std::uint8_t>(Message::kStream);
  const SessionKeys keys = handshake.keys();
  FrameSealer sealer(keys.out.frames, keys.encrypt);
  FrameOpener opener(keys.in.frames, keys.encrypt);
  if (!greeting.send(sealer.seal(kType, compact_json(purpose)))) {
    return dial_error(peer, "the connection broke");
  }
  for (;;) {
    const std::optional<Frame> sealed = greeting.receive_frame();
    if (!sealed) return dial_error(peer, "the peer does not accept the stream");
    const Result<Frame> frame = opener.open(*sealed);
    if (!frame.ok()) return dial_error(peer, frame.error().message);
    // The peer's hello may come first.
    if (frame->type == kType) return Stream(std::move(socket), keys);
  }
}

bool Stream::send(std::span<const std::byte> bytes, bool more) const {
  return writer_ ? writer_->send(bytes, more) : send_bytes(socket_.get(), bytes, more);
}

// Linux sends held-back data when the option is set again.
bool Stream::flush() const {
  if (writer_ && !writer_->flush()) return false;
  const int yes = 1;
  return setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0;
}

bool Stream::receive(std::span<std::byte> bytes) const {
  return reader_ ? reader_->receive(bytes) : receive_bytes(socket_.get(), bytes);
}

void Stream::end_sending() const { ::shutdown(socket_.get(), SHUT_WR); }

void Stream::shut_down() const { ::shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace rubato::elastic
