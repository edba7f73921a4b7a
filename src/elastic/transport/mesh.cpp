#include "elastic/transport/mesh.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"
#include "elastic/transport/descriptor.h"
#include "elastic/transport/frame_seal.h"
#include "elastic/transport/handshake.h"
#include "elastic/transport/wire.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;
using Time = steady_clock::time_point;

// Limit for connections that have not authenticated. Strangers can exhaust neither descriptors nor
// memory. The oldest one makes room for the next, so they cannot keep a worker out either.
constexpr std::size_t kMostStrangers = 128;
constexpr std::size_t kMostOfAStranger = 4096;        // bytes buffered for a stranger
constexpr int kMostAcceptedAtOnce = 64;               // the rest wait for the next poll
constexpr std::size_t kMostUnsent = 4 * 1024 * 1024;  // a peer that reads nothing is dropped
constexpr auto kReconnectInterval = std::chrono::milliseconds(50);
constexpr auto kHandshakeTime = std::chrono::seconds(5);

// A process that this worker may have to wait for or end.
class ProcessHandle {
 public:
  explicit ProcessHandle(std::int64_t pid)
      : fd_(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))) {
    ended_ = !fd_.valid() && errno == ESRCH;
  }
  int descriptor() const { return fd_.get(); }  // readable once the process has ended; -1: none
  bool ended() const {
    if (ended_ || !fd_.valid()) return ended_;
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    ended_ = ::poll(&entry, 1, 0) == 1;
    return ended_;
  }
  void end() {
    if (!ended() && fd_.valid()) syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0);
  }

 private:
  Descriptor fd_;
  mutable bool ended_ = false;
};

struct Connection {
  Descriptor socket;
  FrameReader reader;
  Handshake handshake;
  std::optional<FrameSealer> sealer;  // after the handshake
  std::optional<FrameOpener> opener;
  std::string unsent;
  int peer = -1;  // known after the handshake
  bool outgoing = false;
  bool connecting = false;
  bool broken = false;
  bool refused = false;  // no more of its input is processed
  Time opened = steady_clock::now();
  Time heard = steady_clock::now();
};

struct Peer {
  WorkerAddress address;
  Connection* connection = nullptr;  // authenticated, hello received
  std::optional<ProcessHandle> process;
  bool dials = false;    // this side connects
  bool dialled = false;  // a connection attempt is in progress
  bool was_connected = false;
  bool lost = false;
  bool port_closed = false;  // nobody listens there any more
  Descriptor probe;          // a connection attempt that only checks the port
  Time broken_at;
  Time next_dial;
};

class SocketMesh final : public Mesh {
 public:
  SocketMesh(Options options, WorkerAddress self, Listener& listener, Descriptor listening,
             Descriptor wake)
      : options_(std::move(options)),
        self_(std::move(self)),
        listener_(listener),
        listening_(std::move(listening)),
        wake_(std::move(wake)),
        timeout_(std::chrono::duration_cast<steady_clock::duration>(
            std::chrono::duration<double>(options_.failure_timeout_s))) {}

  const WorkerAddress& self() const override { return self_; }
  void set_board(const std::string& name) override { self_.board = name; }

  void want(const WorkerAddress& address, bool dial) override {
    if (address.id == self_.id) return;
    Peer& peer = peers_[address.id];
    if (peer.lost) return;
    peer.address = address;
    if (!peer.was_connected) peer.dials = dial;
    know_process(peer);
  }

  bool connected(int id) const override {
    const auto found = peers_.find(id);
    return found != peers_.end() && found->second.connection != nullptr;
  }

  bool ended(int id) const override {
    const auto found = peers_.find(id);
    return found == peers_.end() || !found->second.process || found->second.process->ended();
  }

  void send(int id, Message message, const nlohmann::json& body) override {
    const auto found = peers_.find(id);
    if (found == peers_.end() || found->second.connection == nullptr) return;
    queue(*found->second.connection, static_cast<std::uint8_t>(message), compact_json(body));
    flush(*found->second.connection);
  }

  void forget(int id) override {
    const auto found = peers_.find(id);
    if (found == peers_.end()) return;
    found->second.lost = true;
    if (found->second.connection != nullptr) found->second.connection->broken = true;
    found->second.connection = nullptr;
  }

  bool fence(int id) override {
    const auto found = peers_.find(id);
    if (found == peers_.end() || !found->second.process) return true;
    found->second.process->end();
    return found->second.process->ended();
  }

  void wake() override {
    const std::uint64_t one = 1;
    static_cast<void>(!write(wake_.get(), &one, sizeof one));
  }

  std::int64_t refused() const override { return refused_; }

  void poll(int milliseconds) override {
    dial_wanted();
    std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    std::vector<Connection*> order;
    for (Connection& connection : connections_) {
      const bool writing = connection.connecting || !connection.unsent.empty();
      entries.push_back(
          {connection.socket.get(), static_cast<short>(POLLIN | (writing ? POLLOUT : 0)), 0});
      order.push_back(&connection);
    }
    // A killed process closes its sockets slightly before it counts as ended, and both judging and
    // fencing wait for the latter.
    for (const auto& [id, peer] : peers_) {
      if (peer.connection != nullptr || !peer.process) continue;
      if (!peer.process->ended()) {
        entries.push_back({peer.process->descriptor(), POLLIN, 0});
      } else if (!peer.lost) {
        milliseconds = 0;  // it ended since the last judgement: nothing else would wake us up
      }
    }
    ::poll(entries.data(), entries.size(), milliseconds);
    forgive_own_pause();
    if ((entries[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      static_cast<void>(!read(wake_.get(), &count, sizeof count));
    }
    if ((entries[1].revents & POLLIN) != 0) accept_all();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const short what = entries[i + 2].revents;
      Connection& connection = *order[i];
      if (what == 0 || connection.broken) continue;
      if ((what & POLLOUT) != 0) {
        if (connection.connecting) finish_dial(connection);
        flush(connection);
      }
      if ((what & (POLLIN | POLLHUP | POLLERR)) != 0) receive(connection);
    }
    ping();
    judge();
    drop_broken();
  }

 private:
  bool same_node(const Peer& peer) const { return peer.address.node == self_.node; }

  // Process ids of other machines are meaningless here.
  void know_process(Peer& peer) const {
    if (!peer.process && same_node(peer)) peer.process.emplace(peer.address.pid);
  }

  // If this process itself was stopped, it heard from nobody; that says nothing about the others.
  void forgive_own_pause() {
    const Time now = steady_clock::now();
    if (now - last_poll_ > timeout_ / 2) {
      for (Connection& connection : connections_) connection.heard = now;
      for (auto& [id, peer] : peers_) peer.broken_at = now;
    }
    last_poll_ = now;
  }

  void accept_all() {
    for (int accepted = 0; accepted < kMostAcceptedAtOnce; ++accepted) {
      Descriptor socket(accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) return;
      make_room_for_stranger();
      const Result<Nonce> nonce = random_nonce();
      if (!nonce.ok()) continue;
      Connection& connection = add(std::move(socket), Handshake::acceptor(identity(), *nonce));
      connection.unsent += connection.handshake.start();
      flush(connection);
    }
  }

  static bool stranger(const Connection& connection) {
    return connection.peer < 0 && !authenticated(connection) && !connection.broken;
  }

  // Its descriptor is free at once; the rest goes with the other broken connections.
  void make_room_for_stranger() {
    const auto count = std::count_if(connections_.begin(), connections_.end(), stranger);
    if (count < static_cast<std::ptrdiff_t>(kMostStrangers)) return;
    Connection& oldest = *std::find_if(connections_.begin(), connections_.end(), stranger);
    refuse(oldest);
    const Descriptor closed = std::move(oldest.socket);
  }

  Connection& add(Descriptor socket, Handshake handshake) {
    const int yes = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connections_.push_back(
        Connection{.socket = std::move(socket), .handshake = std::move(handshake)});
    return connections_.back();
  }

  // A socket connecting to the peer; `code` is 0, EINPROGRESS or the error.
  static Descriptor begin_connect(const WorkerAddress& peer, int* code) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(peer.port));
    *code = EINVAL;
    if (!socket.valid() || inet_pton(AF_INET, peer.host.c_str(), &address.sin_addr) != 1) {
      return socket;
    }
    const int result =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    *code = result == 0 ? 0 : errno;
    return socket;
  }

  static int error_of(const Descriptor& socket) {
    int code = 0;
    socklen_t size = sizeof code;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    return code;
  }

  // On this node, a lost peer is detected by its process; elsewhere, by the port that its machine
  // has closed.
  void note_refusal(Peer& peer, int code) const {
    if (code == ECONNREFUSED && peer.was_connected && !same_node(peer)) peer.port_closed = true;
  }

  void dial_wanted() {
    const Time now = steady_clock::now();
    for (auto& [id, peer] : peers_) {
      if (peer.lost || peer.connection != nullptr || peer.dialled || now < peer.next_dial ||
          peer.address.port == 0) {
        continue;
      }
      if (!peer.dials) {
        if (peer.was_connected && !same_node(peer)) probe(peer, now);
        continue;
      }
      peer.next_dial = now + kReconnectInterval;
      int code = 0;
      Descriptor socket = begin_connect(peer.address, &code);
      note_refusal(peer, code);
      if (code != 0 && code != EINPROGRESS) continue;
      const Result<Nonce> nonce = random_nonce();
      if (!nonce.ok()) continue;
      Connection& connection =
          add(std::move(socket), Handshake::connector(identity(), *nonce, std::to_string(id)));
      connection.peer = id;
      connection.outgoing = true;
      connection.connecting = code != 0;
      peer.dialled = true;
    }
  }

  void probe(Peer& peer, Time now) const {
    peer.next_dial = now + kReconnectInterval;
    if (peer.probe.valid()) note_refusal(peer, error_of(peer.probe));
    int code = 0;
    peer.probe = begin_connect(peer.address, &code);
    note_refusal(peer, code);
  }

  void finish_dial(Connection& connection) {
    const int code = error_of(connection.socket);
    connection.connecting = false;
    if (code == 0) return;
    connection.broken = true;
    const auto found = peers_.find(connection.peer);
    if (found != peers_.end()) note_refusal(found->second, code);
  }

  void queue(Connection& connection, std::uint8_t type, const std::string& payload) {
    if (connection.broken) return;
    connection.unsent += connection.sealer->seal(type, payload);
    if (connection.unsent.size() > kMostUnsent) connection.broken = true;
  }

  Handshake::Identity identity() const {
    return {options_.secret, options_.job, std::to_string(self_.id), options_.encrypt};
  }

  void flush(Connection& connection) {
    while (!connection.broken && !connection.connecting && !connection.unsent.empty()) {
      const ssize_t n = ::send(connection.socket.get(), connection.unsent.data(),
                               connection.unsent.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) {
        connection.broken = true;
        return;
      }
      connection.unsent.erase(0, static_cast<std::size_t>(n));
    }
  }

  void receive(Connection& connection) {
    std::array<std::byte, 16384> bytes;
    for (;;) {
      const ssize_t n = recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (n <= 0) {
        connection.broken = true;
        break;
      }
      connection.heard = steady_clock::now();
      if (!connection.reader.feed(std::span(bytes).first(static_cast<std::size_t>(n))).ok()) {
        refuse(connection);
        return;
      }
      while (const std::optional<Frame> frame = connection.reader.next()) {
        handle(connection, *frame);
        if (connection.refused) return;
      }
      if (!authenticated(connection) && connection.reader.buffered_bytes() > kMostOfAStranger) {
        refuse(connection);
        return;
      }
    }
  }

  static bool authenticated(const Connection& connection) {
    return connection.handshake.state() == Handshake::State::kAuthenticated;
  }

  void refuse(Connection& connection) {
    ++refused_;
    connection.refused = true;
    connection.broken = true;
  }

  void handle(Connection& connection, const Frame& frame) {
    if (!authenticated(connection)) {
      connection.unsent += connection.handshake.handle(frame);
      if (connection.handshake.state() == Handshake::State::kFailed) {
        refuse(connection);
        return;
      }
      flush(connection);
      if (authenticated(connection)) {
        const auto peer = parse_int(connection.handshake.peer());
        if (!peer || *peer < 0) {
          refuse(connection);
          return;
        }
        connection.peer = static_cast<int>(*peer);
        const SessionKeys keys = connection.handshake.keys();
        connection.sealer.emplace(keys.out.frames, keys.encrypt);
        connection.opener.emplace(keys.in.frames, keys.encrypt);
        queue(connection, static_cast<std::uint8_t>(Message::kHello), compact_json(to_json(self_)));
        flush(connection);
      }
      return;
    }
    const Result<Frame> opened = connection.opener->open(frame);
    if (!opened.ok()) {
      refuse(connection);
      listener_.on_tampering(connection.peer, opened.error().message);
      return;
    }
    const nlohmann::json body = parse_json(opened->payload);
    if (body.is_discarded() || opened->type < static_cast<std::uint8_t>(Message::kPing) ||
        opened->type > static_cast<std::uint8_t>(Message::kStream)) {
      refuse(connection);
      return;
    }
    try {
      dispatch(connection, static_cast<Message>(opened->type), body);
    } catch (const nlohmann::json::exception&) {  // a field has the wrong type
      refuse(connection);
    }
  }

  void dispatch(Connection& connection, Message message, const nlohmann::json& body) {
    if (message == Message::kPing) return;
    if (message == Message::kHello) {
      greet(connection, body);
      return;
    }
    if (message == Message::kStream) {
      hand_over(connection, body);
      return;
    }
    const auto found = peers_.find(connection.peer);
    if (found == peers_.end() || found->second.connection != &connection) return;
    listener_.on_message(connection.peer, message, body);
  }

  // The connection becomes a stream of another owner; nothing may be in flight on it.
  void hand_over(Connection& connection, const nlohmann::json& body) {
    const auto known = peers_.find(connection.peer);
    const bool is_control = known != peers_.end() && known->second.connection == &connection;
    const bool excluded = known != peers_.end() && known->second.lost;
    if (is_control || connection.outgoing || connection.reader.buffered_bytes() > 0) {
      refuse(connection);
      return;
    }
    const auto taker =
        excluded ? std::function<void(Stream)>() : listener_.on_stream(connection.peer, body);
    if (taker) {
      queue(connection, static_cast<std::uint8_t>(Message::kStream), "{}");
      flush(connection);
      if (connection.unsent.empty() && !connection.broken) {
        taker(Stream(std::move(connection.socket), connection.handshake.keys()));
      }
    }
    connection.peer = -1;
    connection.broken = true;
    connection.refused = true;  // not counted: it was not a stranger
  }

  void greet(Connection& connection, const nlohmann::json& body) {
    Result<WorkerAddress> address = parse_address(body);
    if (!address.ok() || address->id != connection.peer) {
      refuse(connection);
      return;
    }
    Peer& peer = peers_[connection.peer];
    if (peer.lost) {
      connection.broken = true;
      return;
    }
    if (peer.connection != nullptr && peer.connection != &connection) {
      peer.connection->broken = true;
    }
    peer.port_closed = false;
    peer.probe = Descriptor();
    peer.address = *address;
    know_process(peer);
    peer.connection = &connection;
    peer.dialled = false;
    peer.was_connected = true;
    listener_.on_connected(peer.address);
  }

  void ping() {
    const Time now = steady_clock::now();
    if (now - last_ping_ <
        std::min<steady_clock::duration>(timeout_ / 8, std::chrono::milliseconds(250))) {
      return;
    }
    last_ping_ = now;
    for (auto& [id, peer] : peers_) {
      if (peer.connection != nullptr) send(id, Message::kPing, nlohmann::json::object());
    }
  }

  // Leaves the others time to continue within the timeout: the clock is checked every 20 ms, and a
  // stopped worker must be ended first.
  steady_clock::duration time_to_act() const {
    return std::min<steady_clock::duration>(timeout_ / 10, std::chrono::milliseconds(40));
  }

  void judge() {
    const Time now = steady_clock::now();
    for (Connection& connection : connections_) {
      if (authenticated(connection) || now - connection.opened <= kHandshakeTime) continue;
      if (stranger(connection)) {
        refuse(connection);
      } else {
        connection.broken = true;
      }
    }
    std::vector<std::pair<int, std::string>> lost;
    for (auto& [id, peer] : peers_) {
      if (peer.lost) continue;
      if (peer.connection != nullptr && peer.connection->broken) {
        peer.connection = nullptr;
        peer.broken_at = now;
      }
      if (peer.connection != nullptr) {
        if (now - peer.connection->heard > timeout_ - time_to_act()) {
          lost.emplace_back(id, fmt::format("silent for {} s", options_.failure_timeout_s));
        }
      } else if (peer.process && peer.process->ended()) {
        lost.emplace_back(id, "its process ended");
      } else if (peer.port_closed) {
        lost.emplace_back(id, "its port is closed");
      } else if (peer.was_connected && now - peer.broken_at > timeout_ - time_to_act()) {
        lost.emplace_back(id, fmt::format("unreachable for {} s", options_.failure_timeout_s));
      }
    }
    for (const auto& [id, why] : lost) {
      forget(id);
      listener_.on_lost(id, why);
    }
    // Dead workers never come back, since ids are not reused. One on another node may still try.
    std::erase_if(peers_, [](const auto& entry) {
      const Peer& peer = entry.second;
      return peer.lost && peer.process && peer.process->ended();
    });
  }

  // Only at the end of poll(): until then, others refer to the connections.
  void drop_broken() {
    connections_.remove_if([&](const Connection& connection) {
      if (!connection.broken) return false;
      const auto found = peers_.find(connection.peer);
      if (found != peers_.end()) {
        if (found->second.connection == &connection) {
          found->second.connection = nullptr;
          found->second.broken_at = steady_clock::now();
        }
        if (connection.outgoing) found->second.dialled = false;
      }
      return true;
    });
  }

  Options options_;
  WorkerAddress self_;
  Listener& listener_;
  Descriptor listening_;
  Descriptor wake_;
  steady_clock::duration timeout_;
  std::list<Connection> connections_;
  std::map<int, Peer> peers_;
  std::int64_t refused_ = 0;
  Time last_poll_ = steady_clock::now();
  Time last_ping_ = steady_clock::now();
};

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::open(const Options& options, WorkerAddress self,
                                         Listener& listener) {
  const auto failed = [&](const char* what) {
    return Error{ErrorCode::kIo, fmt::format("control port on {}: {}: {}", options.host, what,
                                             std::strerror(errno))};
  };
  if (options.encrypt) {
    const Status able = check_encryption();
    if (!able.ok()) return able.error();
  }
  Descriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listening.valid()) return failed("cannot create a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, options.host.c_str(), &address.sin_addr) != 1) {
    return invalid_input(fmt::format("control port: '{}' is not an IPv4 address", options.host));
  }
  if (bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed("cannot bind");
  }
  if (listen(listening.get(), 64) != 0) return failed("cannot listen");
  socklen_t size = sizeof address;
  if (getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return failed("cannot determine its port");
  }
  self.host = options.host;
  self.port = ntohs(address.sin_port);
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return failed("cannot create an event descriptor");
  return std::unique_ptr<Mesh>(std::make_unique<SocketMesh>(options, std::move(self), listener,
                                                            std::move(listening), std::move(wake)));
}

}  // namespace rubato::elastic
