// The records of encrypted streams, with somebody between the two ends.
#include "elastic/transport/sealed_records.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {
namespace {

SessionKey key_of(std::uint8_t first) {
  SessionKey key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(first + i);
  return key;
}

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    RUBATO_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0, "no sockets");
    a = Descriptor(fds[0]);
    b = Descriptor(fds[1]);
  }
  Descriptor a;
  Descriptor b;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// What a writer sends when these texts are given to it one after the other.
std::string sent(const std::vector<std::string>& texts, std::uint64_t records_per_key,
                 const SessionKey& key = key_of(0)) {
  Pair pair;
  std::string wire;
  std::thread reader([&] {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t n = recv(pair.b.get(), buffer.data(), buffer.size(), 0);
      if (n <= 0) return;
      wire.append(buffer.data(), static_cast<std::size_t>(n));
    }
  });
  RecordWriter writer(pair.a.get(), key, records_per_key);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(writer.send(bytes_of(texts[i]), i % 3 != 0));
  }
  EXPECT_TRUE(writer.flush());
  shutdown(pair.a.get(), SHUT_WR);
  reader.join();
  return wire;
}

// Reads pieces of these sizes. Returns what receive() vouched for; `rest` is what it left behind in
// the piece at which it failed.
std::string received(const std::string& wire, const std::vector<std::size_t>& sizes,
                     std::uint64_t records_per_key, std::string* rest = nullptr,
                     const SessionKey& key = key_of(0)) {
  Pair pair;
  std::thread sender([&] {
    std::size_t at = 0;
    while (at < wire.size()) {
      const ssize_t n = send(pair.a.get(), wire.data() + at, wire.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    shutdown(pair.a.get(), SHUT_WR);
  });
  RecordReader reader(pair.b.get(), key, records_per_key);
  std::string good;
  for (const std::size_t size : sizes) {
    std::string piece(size, '\0');
    if (!reader.receive(std::as_writable_bytes(std::span(piece)))) {
      if (rest != nullptr) *rest = piece;
      EXPECT_FALSE(reader.receive(std::as_writable_bytes(std::span(piece)).first(1)));
      break;
    }
    good += piece;
  }
  shutdown(pair.b.get(), SHUT_RDWR);
  sender.join();
  return good;
}

std::vector<std::string> records_of(const std::string& wire) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at < wire.size();) {
    std::size_t length = 0;
    for (std::size_t i = kRecordHeaderBytes; i-- > 0;) {
      length = length << 8 | static_cast<std::uint8_t>(wire[at + i]);
    }
    records.push_back(wire.substr(at, kRecordHeaderBytes + length + kSealBytes));
    at += records.back().size();
  }
  return records;
}

class SealedRecords : public testing::Test {
 protected:
  void SetUp() override {
    const Status able = check_encryption();
    if (!able.ok()) GTEST_SKIP() << able.error().message;
  }
  // Texts of many sizes, among them whole records and more.
  static std::vector<std::string> texts(Random& random, int count) {
    constexpr std::array<std::size_t, 5> kSizes{112, 5000, kRecordBytes, kRecordBytes + 1,
                                                3 * kRecordBytes - 7};
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) {
      std::string text(random.chance(0.5) ? kSizes[random.below(5)] : 1 + random.below(300), '\0');
      for (std::size_t k = 0; k < text.size(); k += 1 + random.below(64)) {
        text[k] = static_cast<char>(random.below(256));
      }
      all.push_back(std::move(text));
    }
    return all;
  }
  static std::vector<std::size_t> pieces(Random& random, std::size_t total) {
    std::vector<std::size_t> sizes;
    while (total > 0) {
      const std::size_t size =
          std::min<std::size_t>(total, 1 + random.below(random.chance(0.5) ? 200 : 150'000));
      sizes.push_back(size);
      total -= size;
    }
    return sizes;
  }
  static std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }
};

TEST_F(SealedRecords, HaveFixedBytes) {  // computed with another implementation
  const std::string wire = sent({"abc", "de", "fg"}, kRecordsPerKey);
  EXPECT_EQ(to_hex({reinterpret_cast<const std::uint8_t*>(wire.data()), wire.size()}),
            "030000006fded64b5a61f64ad13f2b0e8bc87fcc2b7d83"
            "0400000071b3d99b5bb32a387dd978461bf3c02067abf085");
}

TEST_F(SealedRecords, BringWhatWasSentInPiecesOfAnySize) {
  constexpr std::uint64_t kSeed = 6;
  Random random(kSeed);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    const std::vector<std::string> all = texts(random, 12);
    const std::uint64_t records_per_key = trial % 2 == 0 ? kRecordsPerKey : 3;
    const std::string plain = joined(all);
    const std::string wire = sent(all, records_per_key);
    ASSERT_EQ(received(wire, pieces(random, plain.size()), records_per_key), plain);
  }
}

TEST_F(SealedRecords, ThatAreNotTheOnesSentEndTheStream) {
  constexpr std::uint64_t kSeed = 7;
  Random random(kSeed);
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    const std::uint64_t records_per_key = trial % 2 == 0 ? kRecordsPerKey : 3;
    const std::vector<std::string> all = texts(random, 8);
    const std::string plain = joined(all);
    std::vector<std::string> records = records_of(sent(all, records_per_key));
    ASSERT_GE(records.size(), 3u);
    const std::size_t at = random.below(static_cast<std::uint32_t>(records.size() - 1));
    std::size_t intact = at;  // records before the first wrong one
    std::string& target = records[at];
    switch (trial % 8) {
      case 0:  // any bit, also of the length
        target[random.below(static_cast<std::uint32_t>(target.size()))] ^=
            static_cast<char>(1U << random.below(8));
        break;
      case 1:
        target[random.below(kRecordHeaderBytes)] ^= static_cast<char>(1U << random.below(8));
        break;
      case 2:
        records.erase(records.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 3:
        records.insert(records.begin() + static_cast<std::ptrdiff_t>(at), std::string(target));
        intact = at + 1;
        break;
      case 4:
        std::swap(target, records[at + 1]);
        break;
      case 5:  // cut
        target.resize(random.below(static_cast<std::uint32_t>(target.size())));
        records.resize(at + 1);
        break;
      case 6:  // the other direction's or another connection's
        target = records_of(sent(all, records_per_key, key_of(1)))[at];
        break;
      default:  // a byte too many
        target.insert(random.below(static_cast<std::uint32_t>(target.size())), 1, 'x');
        break;
    }
    std::size_t vouched = 0;
    for (std::size_t i = 0; i < intact; ++i) {
      vouched += records[i].size() - kRecordHeaderBytes - kSealBytes;
    }
    std::string rest;
    const std::string got =
        received(joined(records), pieces(random, plain.size()), records_per_key, &rest);
    ASSERT_LE(got.size(), vouched);
    ASSERT_EQ(got, plain.substr(0, got.size()));
    ASSERT_FALSE(rest.empty());
    // Of the piece that failed, only what authenticated records brought has been written.
    const std::size_t known = std::min(vouched - got.size(), rest.size());
    ASSERT_EQ(rest.substr(0, known), plain.substr(got.size(), known));
    ASSERT_EQ(rest.find_first_not_of('\0', known), std::string::npos);
  }
}

TEST_F(SealedRecords, OfAnotherKeyShowNothing) {
  const std::string text(100'000, 'a');
  const std::string wire = sent({text}, kRecordsPerKey);
  EXPECT_EQ(wire.find("aaaaaaaa"), std::string::npos);
  EXPECT_EQ(received(wire, {text.size()}, kRecordsPerKey, nullptr, key_of(1)), "");
}

// As many bytes as two keys may encrypt: the second key must differ, or numbers would repeat.
TEST_F(SealedRecords, UseEachKeyForALimitedNumberOfThem) {
  const std::string record(kRecordBytes, 'a');
  const std::vector<std::string> records = records_of(sent({record, record, record}, 1));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_NE(records[0], records[1]);
  EXPECT_NE(records[1], records[2]);
}

}  // namespace
}  // namespace rubato::elastic
