// The control port of a worker in this process, with hostile peers.
#include "elastic/transport/mesh.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "elastic/stranger.h"
#include "elastic/transport/frame_seal.h"
#include "elastic/transport/handshake.h"
#include "elastic/transport/secret.h"

namespace rubato::elastic {
namespace {

constexpr int kStrangers = 128;  // as many as a mesh keeps

class MeshTest : public ::testing::Test, private Mesh::Listener {
 protected:
  void SetUp() override {
    auto opened = Mesh::open({.job = "job", .secret = secret_},
                             {.id = 0, .node = "a", .pid = getpid()}, *this);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    mesh_ = std::move(*opened);
  }
  // Lets the mesh work until the condition holds.
  template <typename Condition>
  bool until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      mesh_->poll(1);
    }
    return true;
  }
  std::unique_ptr<Stranger> connect() const {
    return std::make_unique<Stranger>(mesh_->self().port);
  }
  // Bytes from the mesh are waiting at the stranger, so the mesh has accepted it.
  bool accepted(const Stranger& stranger) {
    return until([&] { return stranger.has_input(); });
  }
  // A peer that knows the secret.
  struct Authenticated {
    std::unique_ptr<Stranger> connection;
    FrameSealer sealer;
    FrameOpener opener;
    std::string sealed(Message message, const std::string& payload) {
      return sealer.seal(static_cast<std::uint8_t>(message), payload);
    }
  };
  std::optional<Authenticated> authenticated(int id, bool encrypt = false) {
    auto peer = connect();
    Handshake handshake =
        Handshake::connector({secret_, "job", std::to_string(id), encrypt}, *random_nonce(), "0");
    while (handshake.state() == Handshake::State::kPending) {
      if (!until([&] { return peer->has_input(); })) return std::nullopt;
      const std::optional<Frame> frame = peer->hear();
      if (!frame) return std::nullopt;
      peer->say(handshake.handle(*frame));
    }
    if (handshake.state() != Handshake::State::kAuthenticated) return std::nullopt;
    const SessionKeys keys = handshake.keys();
    return Authenticated{std::move(peer), FrameSealer(keys.out.frames, encrypt),
                         FrameOpener(keys.in.frames, encrypt)};
  }

  void on_connected(const WorkerAddress&) override {}
  void on_message(int, Message, const nlohmann::json&) override {}
  void on_lost(int, const std::string&) override {}
  void on_tampering(int peer, const std::string& what) override {
    tampering_ += std::to_string(peer) + ": " + what;
  }
  std::function<void(Stream)> on_stream(int, const nlohmann::json& purpose) override {
    static_cast<void>(purpose.value("stream", ""));  // throws if it is something else
    return {};
  }

  const std::string secret_ = std::string(kSecretBytes, 's');
  std::unique_ptr<Mesh> mesh_;
  std::string tampering_;
};

// The sanitized build shows whether the mesh looks at a connection that it has dropped.
TEST_F(MeshTest, StrangersThatMakeRoomMayHaveInputPending) {
  std::vector<std::unique_ptr<Stranger>> idle;
  for (int i = 0; i < kStrangers; ++i) {
    idle.push_back(connect());
    ASSERT_TRUE(idle.back()->connected());
    ASSERT_TRUE(accepted(*idle.back()));
  }
  for (int round = 1; round <= 3; ++round) {
    for (const auto& stranger : idle) stranger->say("x");
    std::vector<std::unique_ptr<Stranger>> fresh;
    for (int i = 0; i < kStrangers / 4; ++i) {
      fresh.push_back(connect());
      ASSERT_TRUE(fresh.back()->connected());
    }
    mesh_->poll(0);  // one look sees the bytes and the new connections
    for (const auto& stranger : fresh) ASSERT_TRUE(accepted(*stranger));
    EXPECT_GE(mesh_->refused(), round * kStrangers / 4);  // a slow machine refuses more
    for (int i = 0; i < kStrangers / 4; ++i) {
      EXPECT_TRUE(idle[static_cast<std::size_t>(i)]->turned_away());
    }
    idle.erase(idle.begin(), idle.begin() + kStrangers / 4);
    for (auto& stranger : fresh) idle.push_back(std::move(stranger));
  }
}

TEST_F(MeshTest, APeerThatAsksForAStreamOfTheWrongTypeIsRefused) {
  std::optional<Authenticated> peer = authenticated(7);
  ASSERT_TRUE(peer);
  peer->connection->say(peer->sealed(Message::kStream, R"({"stream": 5})"));
  ASSERT_TRUE(until([&] { return mesh_->refused() == 1; }));
  EXPECT_TRUE(peer->connection->turned_away());
  EXPECT_EQ(tampering_, "");
}

// Whoever is on the way between two workers cannot add, change, repeat or reorder what they say.
TEST_F(MeshTest, AFrameThatThePeerDidNotSendNextEndsItsConnection) {
  const auto plain = [](Authenticated&) {
    return encode_frame(static_cast<std::uint8_t>(Message::kPing), "{}");
  };
  const auto altered = [](Authenticated& peer) {
    std::string frame = peer.sealed(Message::kPing, "{}");
    frame[kFrameHeaderBytes] ^= 1;
    return frame;
  };
  const auto other_type = [](Authenticated& peer) {
    std::string frame = peer.sealed(Message::kPing, "{}");
    frame[4] = static_cast<char>(Message::kBye);
    return frame;
  };
  const auto repeated = [](Authenticated& peer) {
    const std::string frame = peer.sealed(Message::kPing, "{}");
    return frame + frame;
  };
  const auto reordered = [](Authenticated& peer) {
    const std::string first = peer.sealed(Message::kPing, "{}");
    return peer.sealed(Message::kPing, "{}") + first;
  };
  const auto cut = [](Authenticated& peer) {
    const std::string frame = peer.sealed(Message::kPing, "{}");
    return encode_frame(static_cast<std::uint8_t>(Message::kPing),
                        frame.substr(kFrameHeaderBytes, kSealBytes - 1));
  };
  const std::vector<std::function<std::string(Authenticated&)>> attacks{
      plain, altered, other_type, repeated, reordered, cut};
  int id = 7;
  for (const auto& attack : attacks) {
    const std::int64_t before = mesh_->refused();
    tampering_.clear();
    std::optional<Authenticated> peer = authenticated(id);
    ASSERT_TRUE(peer);
    peer->connection->say(peer->sealed(Message::kPing, "{}"));  // an honest one is taken
    peer->connection->say(attack(*peer));
    ASSERT_TRUE(until([&] { return mesh_->refused() == before + 1; })) << id;
    EXPECT_TRUE(peer->connection->turned_away());
    EXPECT_TRUE(tampering_.starts_with(std::to_string(id) + ": a control frame of type "))
        << tampering_;
    ++id;
  }
}

TEST_F(MeshTest, AWorkerThatDoesNotEncryptRefusesOneThatDoes) {
  EXPECT_FALSE(authenticated(7, true));
}

}  // namespace
}  // namespace rubato::elastic
