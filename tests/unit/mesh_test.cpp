// The control port of a worker in this process, with hostile peers.
#include "elastic/transport/mesh.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "elastic/stranger.h"
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
  std::unique_ptr<Stranger> authenticated(int id) {
    auto peer = connect();
    Handshake handshake =
        Handshake::connector({secret_, "job", std::to_string(id)}, *random_nonce(), "0");
    while (handshake.state() == Handshake::State::kPending) {
      if (!until([&] { return peer->has_input(); })) return nullptr;
      const std::optional<Frame> frame = peer->hear();
      if (!frame) return nullptr;
      peer->say(handshake.handle(*frame));
    }
    return handshake.state() == Handshake::State::kAuthenticated ? std::move(peer) : nullptr;
  }

  void on_connected(const WorkerAddress&) override {}
  void on_message(int, Message, const nlohmann::json&) override {}
  void on_lost(int, const std::string&) override {}
  std::function<void(Descriptor)> on_stream(int, const nlohmann::json& purpose) override {
    static_cast<void>(purpose.value("stream", ""));  // throws if it is something else
    return {};
  }

  const std::string secret_ = std::string(kSecretBytes, 's');
  std::unique_ptr<Mesh> mesh_;
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
  const std::unique_ptr<Stranger> peer = authenticated(7);
  ASSERT_NE(peer, nullptr);
  peer->say(encode_frame(static_cast<std::uint8_t>(Message::kStream), R"({"stream": 5})"));
  ASSERT_TRUE(until([&] { return mesh_->refused() == 1; }));
  EXPECT_TRUE(peer->turned_away());
}

}  // namespace
}  // namespace rubato::elastic
