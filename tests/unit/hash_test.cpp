// SHA-256, HMAC and CRC-32C against published vectors; special instructions against portable code.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/sha256.h"

namespace rubato {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string sha256_hex(std::string_view text, Sha256::Code code) {
  Sha256 hash(code);
  hash.update(text);
  return to_hex(hash.finish());
}

class Sha256Code : public testing::TestWithParam<Sha256::Code> {};
INSTANTIATE_TEST_SUITE_P(, Sha256Code,
                         testing::Values(Sha256::Code::kFastest, Sha256::Code::kPortable),
                         [](const auto& suite) {
                           return suite.param == Sha256::Code::kFastest ? "fastest" : "portable";
                         });

// FIPS 180-4 examples, and the empty message.
TEST_P(Sha256Code, PublishedVectors) {
  EXPECT_EQ(sha256_hex("", GetParam()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc", GetParam()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", GetParam()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                       "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
                       GetParam()),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a'), GetParam()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(Sha256Code, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(257, 'x');
  const std::string whole = sha256_hex(text, GetParam());
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Sha256 hash(GetParam());
    for (std::size_t at = 0; at < text.size(); at += piece) hash.update(text.substr(at, piece));
    EXPECT_EQ(to_hex(hash.finish()), whole) << "pieces of " << piece;
  }
}

TEST(Sha256, SpecialInstructionsAgreeWithPortableCode) {
  constexpr std::uint64_t kSeed = 4;
  Random random(kSeed);
  for (std::size_t length = 0; length < 400; ++length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(random.below(256));
    EXPECT_EQ(sha256_hex(text, Sha256::Code::kFastest), sha256_hex(text, Sha256::Code::kPortable))
        << "seed " << kSeed << ", length " << length;
  }
}

TEST(Sha256, AFinishedObjectStartsAfresh) {
  Sha256 hash;
  hash.update("something");
  hash.finish();
  hash.update("abc");
  EXPECT_EQ(to_hex(hash.finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// RFC 4231, cases 1 to 4, 6 and 7.
TEST(Hmac, PublishedVectors) {
  const auto hmac = [](const std::string& key, const std::string& message) {
    return to_hex(hmac_sha256(key, message));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char c = 1; c <= 25; ++c) counting += c;
  EXPECT_EQ(hmac(counting, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac(std::string(131, '\xaa'),
                 "This is a test using a larger than block-size key and a larger than block-size "
                 "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, DigestsAreCompared) {
  const Sha256Digest a = hmac_sha256("k", "m");
  for (std::size_t i = 0; i < a.size(); ++i) {
    Sha256Digest b = a;
    EXPECT_TRUE(equal_in_constant_time(a, b));
    b[i] ^= 0x10;
    EXPECT_FALSE(equal_in_constant_time(a, b));
  }
}

// RFC 3720 B.4 and the usual check value.
TEST(Crc32c, PublishedVectors) {
  for (const auto crc : {+[](std::string_view t) { return crc32c(bytes_of(t)); },
                         +[](std::string_view t) { return crc32c_portable(bytes_of(t)); }}) {
    EXPECT_EQ(crc(""), 0U);
    EXPECT_EQ(crc("123456789"), 0xe3069283U);
    EXPECT_EQ(crc(std::string(32, '\0')), 0x8a9136aaU);
    EXPECT_EQ(crc(std::string(32, '\xff')), 0x62a8ab43U);
    std::string counting;
    for (char c = 0; c < 32; ++c) counting += c;
    EXPECT_EQ(crc(counting), 0x46dd794eU);
    EXPECT_EQ(crc(std::string(counting.rbegin(), counting.rend())), 0x113fdb5cU);
  }
}

TEST(Crc32c, TheInstructionAgreesWithTheTableInPieces) {
  constexpr std::uint64_t kSeed = 8;
  Random random(kSeed);
  for (int trial = 0; trial < 500; ++trial) {
    std::string text;
    const int length = random.between(0, 100);
    for (int i = 0; i < length; ++i) text += static_cast<char>(random.below(256));
    const auto bytes = bytes_of(text);
    const std::size_t cut = random.below(static_cast<std::uint32_t>(length + 1));
    const std::uint32_t whole = crc32c_portable(bytes);
    EXPECT_EQ(crc32c(bytes), whole) << "seed " << kSeed;
    EXPECT_EQ(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))), whole) << "seed " << kSeed;
    EXPECT_EQ(crc32c_portable(bytes.subspan(cut), crc32c_portable(bytes.first(cut))), whole);
  }
}

}  // namespace
}  // namespace rubato
