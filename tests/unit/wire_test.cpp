// Frames and the handshake, with honest and hostile peers.
#include "elastic/transport/wire.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "elastic/transport/handshake.h"

namespace rubato::elastic {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// --- frames --------------------------------------------------------------------------------------

TEST(Frames, AreCutAsDocumented) {
  EXPECT_EQ(encode_frame(7, "{}"), std::string("\x02\0\0\0\x07{}", 7));
  EXPECT_EQ(encode_frame(255, ""), std::string("\0\0\0\0\xff", 5));
  EXPECT_EQ(encode_frame(1, std::string(0x10203, 'x')).substr(0, 5),
            std::string("\x03\x02\x01\0\x01", 5));
}

TEST(Frames, ArriveInPiecesOfAnySize) {
  const std::string stream =
      encode_frame(1, "a") + encode_frame(2, "") + encode_frame(3, std::string(300, 'z'));
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      ASSERT_TRUE(reader.feed(bytes_of(stream).subspan(at, std::min(piece, stream.size() - at))));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 3U) << piece;
    EXPECT_EQ(frames[0].payload, "a");
    EXPECT_EQ(frames[1].type, 2);
    EXPECT_EQ(frames[1].payload, "");
    EXPECT_EQ(frames[2].payload, std::string(300, 'z'));
    EXPECT_EQ(reader.buffered_bytes(), 0U);
  }
}

TEST(Frames, TheLargestIsTakenAndALargerOneRefused) {
  FrameReader reader;
  ASSERT_TRUE(reader.feed(bytes_of(encode_frame(9, std::string(kLargestPayload, 'x')))));
  EXPECT_EQ(reader.next()->payload.size(), kLargestPayload);
  for (const std::string_view length :
       {std::string_view("\x01\x00\x10\x00", 4), std::string_view("\xff\xff\xff\xff", 4),
        std::string_view("\x00\x00\x00\x80", 4)}) {
    FrameReader other;
    // Also after a good frame in the same piece.
    const std::string stream = encode_frame(1, "good") + std::string(length) + '\x01';
    const Status refused = other.feed(bytes_of(stream));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("at most 1048576"), std::string::npos);
    EXPECT_FALSE(other.next());
    EXPECT_EQ(other.buffered_bytes(), 0U);
    EXPECT_FALSE(other.feed(bytes_of(encode_frame(1, ""))).ok());  // and it stays refused
    EXPECT_EQ(other.buffered_bytes(), 0U);
  }
}

TEST(Frames, AnAnnouncedLengthAllocatesNothing) {
  FrameReader reader;
  ASSERT_TRUE(reader.feed(bytes_of(std::string_view("\x00\x00\x10\x00\x01", 5))));
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.buffered_bytes(), 5U);
}

// --- handshake -----------------------------------------------------------------------------------

const std::string kSecret(kSecretBytes, 's');

Nonce nonce_of(std::uint8_t value) {
  Nonce nonce;
  nonce.fill(value);
  return nonce;
}

Handshake::Identity identity(const std::string& worker, const std::string& secret = kSecret,
                             const std::string& job = "job") {
  return {.secret = secret, .job = job, .worker = worker};
}

Frame only_frame(const std::string& bytes) {
  FrameReader reader;
  EXPECT_TRUE(reader.feed(bytes_of(bytes)).ok());
  auto frame = reader.next();
  EXPECT_TRUE(frame.has_value());
  EXPECT_EQ(reader.buffered_bytes(), 0U);
  return frame.value_or(Frame{});
}

using State = Handshake::State;

TEST(HandshakeTest, AnHonestPairSucceeds) {
  for (const std::string peer : {"", "a"}) {
    auto acceptor = Handshake::acceptor(identity("a"), *random_nonce());
    auto connector = Handshake::connector(identity("b"), *random_nonce(), peer);
    EXPECT_EQ(connector.start(), "");
    const std::string answer = connector.handle(only_frame(acceptor.start()));
    EXPECT_EQ(connector.state(), State::kPending);
    const std::string welcome = acceptor.handle(only_frame(answer));
    EXPECT_EQ(acceptor.state(), State::kAuthenticated) << acceptor.failure();
    EXPECT_EQ(acceptor.peer(), "b");
    EXPECT_EQ(connector.handle(only_frame(welcome)), "");
    EXPECT_EQ(connector.state(), State::kAuthenticated) << connector.failure();
    EXPECT_EQ(connector.peer(), "a");
    // Later frames do not belong to the handshake.
    EXPECT_EQ(acceptor.handle({.type = 77, .payload = "x"}), "");
    EXPECT_EQ(acceptor.state(), State::kAuthenticated);
  }
}

// Why the acceptor rejects the answer of this connector.
std::string acceptors_failure(Handshake connector) {
  auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
  const std::string welcome =
      acceptor.handle(only_frame(connector.handle(only_frame(acceptor.start()))));
  EXPECT_EQ(acceptor.state(), State::kFailed);
  EXPECT_EQ(welcome, "");
  EXPECT_EQ(acceptor.peer(), "");
  return acceptor.failure();
}

TEST(HandshakeTest, AConnectorWithoutTheSecretIsRefused) {
  std::string other = kSecret;
  other[31] ^= 1;
  const char* const no_secret = "the peer does not hold the secret of this job";
  EXPECT_EQ(acceptors_failure(Handshake::connector(identity("b", other), nonce_of(2), "")),
            no_secret);
  EXPECT_EQ(
      acceptors_failure(Handshake::connector(identity("b", kSecret, "other job"), nonce_of(2), "")),
      no_secret);
  EXPECT_EQ(acceptors_failure(Handshake::connector(identity("b"), nonce_of(2), "c")),
            "the answer is for another worker");
}

TEST(HandshakeTest, AnAcceptorWithoutTheSecretIsRefused) {
  // It takes any answer and makes up a welcome.
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "a");
  const auto impostor = Handshake::acceptor(identity("a", std::string(32, 'x')), nonce_of(1));
  EXPECT_NE(connector.handle(only_frame(impostor.start())), "");
  connector.handle({.type = kWelcomeFrame,
                    .payload = R"({"worker":"a","hmac":")" + std::string(64, '0') + "\"}"});
  EXPECT_EQ(connector.state(), State::kFailed);
  EXPECT_EQ(connector.failure(), "the peer does not hold the secret of this job");
}

TEST(HandshakeTest, AnotherWorkerThanTheOneMeantIsRefused) {
  auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "");
  const std::string welcome =
      acceptor.handle(only_frame(connector.handle(only_frame(acceptor.start()))));
  auto meant_c = Handshake::connector(identity("b"), nonce_of(2), "c");
  meant_c.handle(only_frame(acceptor.start()));
  meant_c.handle(only_frame(welcome));
  EXPECT_EQ(meant_c.failure(), "worker 'a' answered; expected worker 'c'");
}

TEST(HandshakeTest, AReplayedAnswerIsRefused) {
  auto first = Handshake::acceptor(identity("a"), nonce_of(1));
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "a");
  const Frame answer = only_frame(connector.handle(only_frame(first.start())));
  const Frame welcome = only_frame(first.handle(answer));
  EXPECT_EQ(first.state(), State::kAuthenticated);
  auto second = Handshake::acceptor(identity("a"), nonce_of(3));
  second.start();
  EXPECT_EQ(second.handle(answer), "");
  EXPECT_EQ(second.state(), State::kFailed);
  // A replayed welcome.
  auto later = Handshake::connector(identity("b"), nonce_of(4), "a");
  later.handle(only_frame(first.start()));
  later.handle(welcome);
  EXPECT_EQ(later.state(), State::kFailed);
}

TEST(HandshakeTest, ReflectionIsRefused) {
  // The attacker, who has no secret, sends the acceptor's own messages back to it, or has a
  // connector of the same worker compute the proof.
  auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
  EXPECT_EQ(acceptor.handle(only_frame(acceptor.start())), "");
  EXPECT_EQ(acceptor.state(), State::kFailed);

  auto target = Handshake::acceptor(identity("a"), nonce_of(1));
  auto same_nonce = Handshake::connector(identity("a"), nonce_of(1), "");
  EXPECT_EQ(same_nonce.handle(only_frame(target.start())), "");
  EXPECT_EQ(same_nonce.failure(), "the challenge reflects this worker's own nonce");

  // The connector's proof is not a welcome.
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "");
  const Frame answer = only_frame(connector.handle(only_frame(target.start())));
  connector.handle({.type = kWelcomeFrame, .payload = answer.payload});
  EXPECT_EQ(connector.state(), State::kFailed);
}

TEST(HandshakeTest, AnyChangedCharacterOfAMessageIsRefused) {
  auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "a");
  const Frame challenge = only_frame(acceptor.start());
  const Frame answer = only_frame(connector.handle(challenge));
  const Frame welcome = only_frame(acceptor.handle(answer));
  for (std::size_t i = 0; i < answer.payload.size(); ++i) {
    Frame changed = answer;
    changed.payload[i] ^= 1;
    auto target = Handshake::acceptor(identity("a"), nonce_of(1));
    target.handle(changed);
    EXPECT_EQ(target.state(), State::kFailed) << changed.payload;
    changed.payload = answer.payload.substr(0, i);
    auto truncated = Handshake::acceptor(identity("a"), nonce_of(1));
    truncated.handle(changed);
    EXPECT_EQ(truncated.state(), State::kFailed) << changed.payload;
  }
  for (std::size_t i = 0; i < welcome.payload.size(); ++i) {
    Frame changed = welcome;
    changed.payload[i] ^= 1;
    auto target = Handshake::connector(identity("b"), nonce_of(2), "a");
    target.handle(challenge);
    target.handle(changed);
    EXPECT_EQ(target.state(), State::kFailed) << changed.payload;
  }
}

TEST(HandshakeTest, AnotherVersionIsNamed) {
  auto connector = Handshake::connector(identity("b"), nonce_of(2), "");
  connector.handle({.type = kChallengeFrame,
                    .payload = R"({"version":7,"nonce":")" + std::string(64, '0') + "\"}"});
  EXPECT_EQ(connector.failure().find("the peer uses protocol version 7, this program version 2"),
            0U);
}

TEST(HandshakeTest, WrongMessagesAreRefused) {
  const std::string hex(64, 'a');
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  for (const std::string& payload :
       {std::string(), std::string("{}"), std::string("[]"), std::string("null"), deep,
        R"({"version":2})" + std::string(), R"({"version":"2","nonce":")" + hex + "\"}",
        R"({"version":1e99,"nonce":")" + hex + "\"}", R"({"version":2,"nonce":5})" + std::string(),
        R"({"version":2,"nonce":")" + hex.substr(1) + "\"}",
        R"({"nonce":")" + hex + R"(","worker":"b","to":"","hmac":")" + hex + "\"}",
        R"({"nonce":")" + hex + R"(","worker":"b\n","to":"","hmac":")" + hex + "\"}",
        R"({"nonce":")" + hex + R"(","worker":"","to":"","hmac":")" + hex + "\"}",
        R"({"nonce":")" + hex + R"(","worker":{},"to":[],"hmac":0})", std::string(100'000, '{'),
        std::string("{\"nonce\":\"\xff\xfe\"}"), std::string(kLargestPayload, ' ')}) {
    for (const std::uint8_t type :
         {kChallengeFrame, kAnswerFrame, kWelcomeFrame, std::uint8_t{0}}) {
      auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
      EXPECT_EQ(acceptor.handle({.type = type, .payload = payload}), "");
      EXPECT_EQ(acceptor.state(), State::kFailed);
      EXPECT_FALSE(acceptor.failure().empty());
      auto connector = Handshake::connector(identity("b"), nonce_of(2), "");
      EXPECT_EQ(connector.handle({.type = type, .payload = payload}), "");
      EXPECT_EQ(connector.state(), State::kFailed) << payload;
    }
  }
}

TEST(HandshakeTest, RandomBytesAreRefused) {
  constexpr std::uint64_t kSeed = 20;
  Random random(kSeed);
  auto honest = Handshake::acceptor(identity("a"), nonce_of(1));
  auto honest_connector = Handshake::connector(identity("b"), nonce_of(2), "a");
  const std::string challenge = honest.start();
  const std::string answer = honest_connector.handle(only_frame(challenge));
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string stream;
    if (random.chance(0.5)) {  // an honest message, damaged
      stream = random.chance(0.5) ? challenge : answer;
      const int changes = random.between(1, 8);
      for (int i = 0; i < changes; ++i) {
        stream[random.below(static_cast<std::uint32_t>(stream.size()))] =
            static_cast<char>(random.below(256));
      }
    } else {
      const int length = random.between(0, 200);
      for (int i = 0; i < length; ++i) stream += static_cast<char>(random.below(256));
      if (length > 4 && random.chance(0.8)) stream[1] = stream[2] = stream[3] = '\0';
    }
    if (stream == answer) continue;
    auto acceptor = Handshake::acceptor(identity("a"), nonce_of(1));
    auto connector = Handshake::connector(identity("b"), nonce_of(2), "a");
    FrameReader reader;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t piece = std::min<std::size_t>(stream.size() - at, 1 + random.below(100));
      if (!reader.feed(bytes_of(stream).subspan(at, piece))) break;
      at += piece;
      while (auto frame = reader.next()) {
        acceptor.handle(*frame);
        connector.handle(*frame);
      }
      ASSERT_LE(reader.buffered_bytes(), at);
    }
    ASSERT_NE(acceptor.state(), State::kAuthenticated) << "seed " << kSeed << ", trial " << trial;
    ASSERT_NE(connector.state(), State::kAuthenticated) << "seed " << kSeed << ", trial " << trial;
  }
}

// --- secrets -------------------------------------------------------------------------------------

class Secret : public testing::Test {
 protected:
  Secret() : path_(testing::TempDir() + "rubato_secret_test_" + std::to_string(::getpid())) {
    std::filesystem::remove(path_);
  }
  ~Secret() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string path_;
};

TEST_F(Secret, IsMadeOnceAndReadByItsOwnerOnly) {
  EXPECT_EQ(read_secret(path_).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(create_secret(path_));
  const auto secret = read_secret(path_);
  ASSERT_TRUE(secret.ok()) << secret.error().message;
  EXPECT_EQ(secret->size(), kSecretBytes);
  EXPECT_FALSE(create_secret(path_).ok());  // never replaced
  EXPECT_EQ(*read_secret(path_), *secret);
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  const auto open_to_others = read_secret(path_);
  ASSERT_FALSE(open_to_others.ok());
  EXPECT_NE(open_to_others.error().message.find("chmod 600 " + path_), std::string::npos);
  EXPECT_FALSE(create_secret(path_ + "/none/s").ok());
}

TEST_F(Secret, OfAnotherLengthIsRefused) {
  ASSERT_TRUE(write_file(path_, std::string(31, 'x')));
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_NE(read_secret(path_).error().message.find("expected the file of 32 bytes"),
            std::string::npos);
  EXPECT_FALSE(read_secret(testing::TempDir()).ok());
}

TEST_F(Secret, NoncesDiffer) { EXPECT_NE(*random_nonce(), *random_nonce()); }

}  // namespace
}  // namespace rubato::elastic
