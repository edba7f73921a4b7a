#include "elastic/transport/http_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/base64.h"

namespace rubato::elastic {
namespace {

// The body, if the bytes are one answer, however they are cut; else what is wrong with it.
std::string body_of(const std::string& bytes) {
  std::string result;
  for (std::size_t part = 1; part <= bytes.size(); part = part * 2 + 1) {
    HttpReader reader(100);
    std::string body;
    Status taken = ok_status();
    for (std::size_t at = 0; at < bytes.size() && taken.ok(); at += part) {
      taken = reader.feed(std::string_view(bytes).substr(at, part));
      body += reader.take_body();
    }
    if (taken.ok() && !reader.complete()) taken = reader.end();
    body += reader.take_body();
    const std::string now = taken.ok() ? body : "wrong: " + taken.error().message;
    if (part == 1) result = now;
    EXPECT_EQ(now, result) << "in parts of " << part;
  }
  return result;
}

TEST(HttpReaderTest, ABodyHasALengthOrChunksOrEndsWithTheConnection) {
  EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), "hello");
  EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello"), "hello");
  EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n"),
            "hello");
  EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\n\r\nhello"), "hello");
  EXPECT_EQ(body_of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
            "x");
  EXPECT_EQ(body_of("HTTP/1.1 204 None\r\n\r\n"), "");
}

TEST(HttpReaderTest, BadAnswersAreRefused) {
  const auto wrong = [](const std::string& bytes) {
    EXPECT_TRUE(body_of(bytes).starts_with("wrong: ")) << bytes;
  };
  wrong("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
  wrong("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n");
  wrong("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
  wrong("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n");
  wrong("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n");
  wrong("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n");
  wrong("HTTP/2 200\r\n\r\n");
  wrong("HTTP/1.1 999 OK\r\n\r\n");
  wrong("\r\n\r\n");
}

TEST(HttpReaderTest, AConnectionIsUsedAgainIfBothAgree) {
  const auto keeps = [](const std::string& bytes) {
    HttpReader reader(100);
    EXPECT_TRUE(reader.feed(bytes).ok());
    EXPECT_TRUE(reader.complete());
    return reader.keeps_open();
  };
  EXPECT_TRUE(keeps("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
}

// A stream may be longer than what is kept of it at a time.
TEST(HttpReaderTest, AStreamGoesOnAsLongAsItIsTaken) {
  HttpReader reader(100);
  ASSERT_TRUE(reader.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(reader.feed("a\r\n0123456789\r\n").ok());
    EXPECT_EQ(reader.take_body(), "0123456789");
  }
  EXPECT_FALSE(reader.complete());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(reader.feed("a\r\n0123456789\r\n").ok());
  EXPECT_FALSE(reader.feed("a\r\n0123456789\r\n").ok());
}

TEST(Base64Test, TheVectorsOfItsStandard) {
  const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(parse_base64(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
    EXPECT_EQ(parse_base64(base64(all)), all);
  }
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm9v=", "Zm 9", "Zg==Zg==", "Zm9v\n"}) {
    EXPECT_FALSE(parse_base64(bad)) << bad;
  }
}

}  // namespace
}  // namespace rubato::elastic
