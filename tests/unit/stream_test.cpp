// Streams between two workers, with somebody on the way who reads and alters (relay.h).
#include "elastic/transport/stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/random.h"
#include "elastic/relay.h"
#include "elastic/transport/mesh.h"

namespace rubato::elastic {
namespace {

constexpr std::size_t kFloats = 50'000;

// A worker that takes every stream and returns what it receives there, gradient by gradient.
class Echo final : private Mesh::Listener {
 public:
  Echo(const std::string& secret, bool encrypt) {
    auto opened = Mesh::open({.job = "job", .secret = secret, .encrypt = encrypt},
                             {.id = 0, .node = "a", .pid = getpid()}, *this);
    RUBATO_CHECK(opened.ok(), opened.error().message.c_str());
    mesh_ = std::move(*opened);
    thread_ = std::thread([this] {
      while (!stop_) mesh_->poll(20);
    });
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  ~Echo() override {
    stop_ = true;
    mesh_->wake();
    thread_.join();
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_) stream->shut_down();
    for (std::thread& server : servers_) server.join();
  }

  WorkerAddress address(int port) const {
    WorkerAddress address = mesh_->self();
    address.port = port;
    return address;
  }
  int port() const { return mesh_->self().port; }
  // Every gradient that arrived as a whole.
  std::vector<std::vector<float>> arrived() const {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  void on_connected(const WorkerAddress&) override {}
  void on_message(int, Message, const nlohmann::json&) override {}
  void on_lost(int, const std::string&) override {}
  void on_tampering(int, const std::string&) override {}
  std::function<void(Stream)> on_stream(int, const nlohmann::json&) override {
    return [this](Stream stream) {
      const std::lock_guard lock(mutex_);
      streams_.push_back(std::make_unique<Stream>(std::move(stream)));
      servers_.emplace_back([this, taken = streams_.back().get()] { serve(*taken); });
    };
  }
  void serve(const Stream& stream) {
    std::vector<float> gradient(kFloats);
    while (stream.receive(std::as_writable_bytes(std::span(gradient)))) {
      {
        const std::lock_guard lock(mutex_);
        arrived_.push_back(gradient);
      }
      if (!stream.send(std::as_bytes(std::span(gradient)))) break;
    }
    stream.shut_down();
  }

  std::unique_ptr<Mesh> mesh_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::thread> servers_;
  std::vector<std::vector<float>> arrived_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    const Status able = check_encryption();
    if (!able.ok()) GTEST_SKIP() << able.error().message;
    for (std::size_t i = 0; i < kFloats; ++i) gradient_.push_back(static_cast<float>(i) * 0.37F);
  }
  Result<Stream> dial(const WorkerAddress& to, bool encrypt) const {
    const std::atomic<bool> never{false};
    const nlohmann::json purpose{{"stream", "the purpose of it"}};
    Result<Stream> stream = Stream();
    for (int tries = 0; tries < 20; ++tries) {  // a dial may time out on a busy machine
      stream = Stream::dial(to, {secret_, "job", "7", encrypt}, purpose, never);
      if (stream.ok()) break;
    }
    return stream;
  }
  bool round_trip(const Stream& stream) const {
    std::vector<float> back(kFloats);
    const bool good = stream.send(std::as_bytes(std::span(gradient_))) &&
                      stream.receive(std::as_writable_bytes(std::span(back)));
    if (good) {
      EXPECT_EQ(back, gradient_);
    }
    return good;
  }
  // 8 bytes from the middle of the gradient.
  std::string a_piece() const {
    return {reinterpret_cast<const char*>(gradient_.data() + kFloats / 2), 8};
  }

  const std::string secret_ = std::string(kSecretBytes, 's');
  std::vector<float> gradient_;
};

TEST_F(Streams, ShowTheirBytesOnTheWayOnlyIfTheJobDoesNotEncrypt) {
  for (const bool encrypt : {false, true}) {
    Echo echo(secret_, encrypt);
    Relay relay(echo.port());
    {
      const Result<Stream> stream = dial(echo.address(relay.port()), encrypt);
      ASSERT_TRUE(stream.ok()) << stream.error().message;
      ASSERT_TRUE(round_trip(*stream));
      ASSERT_TRUE(round_trip(*stream));
    }
    const std::string wire = relay.recorded();
    EXPECT_GT(wire.size(), 4 * kFloats * sizeof(float));
    EXPECT_EQ(wire.find(a_piece()) == std::string::npos, encrypt);
    EXPECT_EQ(wire.find("the purpose of it") == std::string::npos, encrypt);
    EXPECT_EQ(wire.find(secret_), std::string::npos);
  }
}

TEST_F(Streams, OfTwoMindsAboutEncryptionAreNotOpened) {
  for (const bool encrypt : {false, true}) {
    Echo echo(secret_, encrypt);
    const std::atomic<bool> never{false};
    const Result<Stream> stream = Stream::dial(
        echo.address(echo.port()), {secret_, "job", "7", !encrypt}, {{"stream", "x"}}, never);
    ASSERT_FALSE(stream.ok());
    EXPECT_NE(stream.error().message.find(encrypt ? "the peer's job encrypts, this one does not"
                                                  : "this job encrypts, the peer does not"),
              std::string::npos)
        << stream.error().message;
  }
}

// Whoever rewrites "encrypt" in the first frames cannot talk either end out of encryption.
TEST_F(Streams, CannotBeTalkedOutOfEncryption) {
  for (const bool both : {false, true}) {
    Echo echo(secret_, true);
    Relay relay(echo.port(), [both](bool to_target, std::size_t before, std::string& bytes) {
      if (before > 0 || (to_target && !both)) return;
      const std::string said = to_target ? "\"encrypt\":false" : "\"encrypt\":true";
      const std::string made = to_target ? "\"encrypt\":true" : "\"encrypt\":false";
      const std::size_t at = bytes.find(said);
      if (at == std::string::npos) return;
      bytes.replace(at, said.size(), made);
      bytes[0] = static_cast<char>(bytes[0] + (to_target ? -1 : 1));  // the frame's length
    });
    const std::atomic<bool> never{false};
    for (const bool encrypt : {false, true}) {
      EXPECT_FALSE(Stream::dial(echo.address(relay.port()), {secret_, "job", "7", encrypt},
                                {{"stream", "x"}}, never)
                       .ok());
    }
  }
}

TEST_F(Streams, ThatAreAlteredOnTheWayEndAndBringNothingWrong) {
  constexpr std::uint64_t kSeed = 8;
  Random random(kSeed);
  for (int trial = 0; trial < 24; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    Echo echo(secret_, true);
    // One bit of the second gradient, on its way there or back. What precedes it (the handshake and
    // the first gradient with its records) is a little more than a gradient.
    const bool there = random.chance(0.5);
    const std::size_t gradient_bytes = kFloats * sizeof(float);
    const std::size_t at =
        gradient_bytes + 4096 + random.below(static_cast<std::uint32_t>(gradient_bytes - 8192));
    const auto bit = static_cast<char>(1U << random.below(8));
    std::atomic<int> changed{0};
    Relay relay(echo.port(), [&](bool to_target, std::size_t before, std::string& bytes) {
      if (to_target != there || at < before || at >= before + bytes.size()) return;
      bytes[at - before] ^= bit;
      ++changed;
    });
    const Result<Stream> stream = dial(echo.address(relay.port()), true);
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    ASSERT_TRUE(round_trip(*stream));
    EXPECT_FALSE(round_trip(*stream));
    EXPECT_EQ(changed, 1);
    stream->shut_down();
    // A new stream serves as before, which is what a job does.
    const Result<Stream> again = dial(echo.address(echo.port()), true);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(round_trip(*again));
    for (const std::vector<float>& gradient : echo.arrived()) EXPECT_EQ(gradient, gradient_);
    again->shut_down();
  }
}

}  // namespace
}  // namespace rubato::elastic
