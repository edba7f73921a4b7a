// What protects the connections between workers: keys, AES-256-GCM through a libcrypto that is
// loaded at run time, sealed control frames, sealed records. The expected bytes were computed with
// another implementation (Python's cryptography).
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/random.h"
#include "elastic/transport/aead.h"
#include "elastic/transport/frame_seal.h"
#include "elastic/transport/libcrypto.h"
#include "elastic/transport/secret.h"
#include "elastic/transport/session_keys.h"

namespace rubato::elastic {
namespace {

std::string hex(std::string_view bytes) {
  return to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

SessionKey counting_key() {
  SessionKey key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
  return key;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

SessionFacts facts(bool encrypt) {
  return {.secret = std::string(kSecretBytes, 's'),
          .version = 2,
          .acceptor_nonce = repeated("01", 32),
          .connector_nonce = repeated("02", 32),
          .job = "job",
          .acceptor = "0",
          .connector = "7",
          .encrypt = encrypt};
}

TEST(SessionKeysTest, HkdfGivesTheBytesOfItsStandard) {  // RFC 5869, A.1
  std::string salt;
  for (char c = 0; c <= 12; ++c) salt += c;
  EXPECT_EQ(
      to_hex(derive_key(std::string(22, '\x0b'), salt, "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9")),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(SessionKeysTest, AreFixed) {
  const SessionKeys plain = derive_session_keys(facts(false), true);
  EXPECT_EQ(to_hex(plain.out.frames),
            "1a07cf52108766dbb6ab7a1e8c723db3d982ee905a8bd43b73e3161fabf01988");
  EXPECT_EQ(to_hex(plain.in.frames),
            "2358bc67795f8eb96be04146b34857f92a85a25ddd9716d2dd6d50f8eb544d74");
  const SessionKeys keys = derive_session_keys(facts(true), true);
  EXPECT_EQ(to_hex(keys.out.frames),
            "f7c7d53ae470a393f7f633250370a330b3d367ca8f5a211156ec78f7d7d6e428");
  EXPECT_EQ(to_hex(keys.out.bulk),
            "7bf35965523e43918e4861eb7e22b801bdf0ee1b615ef056d5927e36499f0859");
  EXPECT_EQ(to_hex(keys.in.bulk),
            "c15cff9f435bb3bc99db235e9b4a5b4084941b7a522840da9f1ab0d827c966f6");
  EXPECT_EQ(to_hex(next_key(keys.out.bulk)),
            "b999e13cd2d63b89cb49790dcde84969b724df91a002d6c6a77fdd33fbc407ae");
}

TEST(SessionKeysTest, OfTheTwoEndsAreTheSameAndOfAnythingElseOthers) {
  const SessionKeys acceptor = derive_session_keys(facts(true), true);
  const SessionKeys connector = derive_session_keys(facts(true), false);
  EXPECT_EQ(acceptor.out.frames, connector.in.frames);
  EXPECT_EQ(acceptor.in.frames, connector.out.frames);
  EXPECT_EQ(acceptor.out.bulk, connector.in.bulk);
  EXPECT_EQ(acceptor.in.bulk, connector.out.bulk);
  const auto others = [&](auto&& change) {
    SessionFacts changed = facts(true);
    change(changed);
    const SessionKeys keys = derive_session_keys(changed, true);
    return keys.out.frames != acceptor.out.frames && keys.out.bulk != acceptor.out.bulk;
  };
  EXPECT_TRUE(others([](SessionFacts& f) { f.secret[0] = 't'; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.version = 3; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.acceptor_nonce[0] = '1'; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.connector_nonce[63] = '3'; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.job = "jo"; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.acceptor = "1"; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.connector = "1"; }));
  EXPECT_TRUE(others([](SessionFacts& f) { f.encrypt = false; }));
}

TEST(LibcryptoTest, WhereItIsMissingTheErrorSaysWhatToDo) {
  const Result<Libcrypto> loaded = load_libcrypto(std::array{"libno.so.1", "libno.so.2"});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message,
            "cannot encrypt: OpenSSL's libcrypto cannot be loaded (tried libno.so.1, libno.so.2); "
            "install it on this machine (Debian: libssl3), or run the job without encryption");
  // A library without the functions is none.
  EXPECT_FALSE(load_libcrypto(std::array{"libc.so.6"}).ok());
}

class Sealing : public testing::Test {
 protected:
  void SetUp() override {
    const Status able = check_encryption();
    if (!able.ok()) GTEST_SKIP() << able.error().message;
  }
};

TEST_F(Sealing, AesGcmGivesTheBytesOfItsStandard) {  // McGrew and Viega, test case 14
  Aead aead(SessionKey{}, Aead::Use::kSeal);
  std::array<std::byte, 16> block{};
  std::array<std::byte, kSealBytes> seal{};
  ASSERT_TRUE(aead.begin() && aead.update(block, block.data()) && aead.seal_end(seal));
  EXPECT_EQ(to_hex({reinterpret_cast<const std::uint8_t*>(block.data()), block.size()}),
            "cea7403d4d606b6e074ec5d3baf39d18");
  EXPECT_EQ(to_hex({reinterpret_cast<const std::uint8_t*>(seal.data()), seal.size()}),
            "d0d1c8a799996bf0265b98b5d48ab919");
}

Frame parsed(const std::string& bytes) {
  FrameReader reader;
  EXPECT_TRUE(reader.feed(std::as_bytes(std::span(bytes))).ok());
  const auto frame = reader.next();
  EXPECT_TRUE(frame);
  return frame.value_or(Frame{});
}

TEST_F(Sealing, FramesHaveFixedBytes) {
  FrameSealer plain(counting_key(), false);
  EXPECT_EQ(hex(plain.seal(16, "{}")), "12000000107b7dd57f5050aef23c8b3e17683957942610");
  EXPECT_EQ(hex(plain.seal(16, "{}")), "12000000107b7d30f674153517a2928ca95d4b2601bca0");
  FrameSealer encrypted(counting_key(), true);
  EXPECT_EQ(hex(encrypted.seal(16, "{}")), "120000001075c190cc1f1f57364a81e3d28ce04697aa61");
}

TEST_F(Sealing, FramesOpenInTheirOrderAndOtherwiseNot) {
  constexpr std::uint64_t kSeed = 4;
  Random random(kSeed);
  for (int trial = 0; trial < 4000; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    const bool encrypt = trial % 2 == 1;
    FrameSealer sealer(counting_key(), encrypt);
    FrameOpener opener(counting_key(), encrypt);
    std::vector<Frame> plain;
    std::vector<Frame> wire;
    for (int i = 0; i < 6; ++i) {
      Frame frame{.type = static_cast<std::uint8_t>(16 + random.below(3)),
                  .payload = std::string(random.below(40), 'x')};
      wire.push_back(parsed(sealer.seal(frame.type, frame.payload)));
      plain.push_back(std::move(frame));
    }
    const std::size_t at = random.below(5);
    std::size_t good = at;  // frames before it open
    Frame& target = wire[at];
    switch (random.below(6)) {
      case 0:
        target.payload[random.below(static_cast<std::uint32_t>(target.payload.size()))] ^=
            static_cast<char>(1U << random.below(8));
        break;
      case 1:
        target.type ^= 1;
        break;
      case 2:
        target.payload.resize(random.below(static_cast<std::uint32_t>(target.payload.size())));
        break;
      case 3:
        wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 4:
        wire.insert(wire.begin() + static_cast<std::ptrdiff_t>(at), Frame(target));
        good = at + 1;
        break;
      default:
        std::swap(wire[at], wire[at + 1]);
        break;
    }
    for (std::size_t i = 0; i < wire.size(); ++i) {
      const Result<Frame> opened = opener.open(wire[i]);
      ASSERT_EQ(opened.ok(), i < good) << i;
      if (!opened.ok()) continue;
      ASSERT_EQ(opened->type, plain[i].type);
      ASSERT_EQ(opened->payload, plain[i].payload);
    }
  }
}

TEST_F(Sealing, AnEncryptedFrameDoesNotShowItsPayload) {
  FrameSealer plain(counting_key(), false);
  EXPECT_NE(plain.seal(16, "where the worker is").find("where the worker is"), std::string::npos);
  FrameSealer encrypted(counting_key(), true);
  EXPECT_EQ(encrypted.seal(16, "where the worker is").find("worker"), std::string::npos);
}

}  // namespace
}  // namespace rubato::elastic
