// What a server may answer that is not what etcd answers: nothing of it crashes a worker or makes
// it wait longer than its patience, and the error says what was wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/random.h"
#include "elastic/job/etcd_registry.h"
#include "registry/told_server.h"

namespace rubato::elastic {
namespace {

using std::chrono::milliseconds;

std::string http(const std::string& body, int status = 200) {
  return fmt::format(
      "HTTP/1.1 {} Words\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
      body.size(), body);
}
std::string with_header(const std::string& rest) {
  return http(R"({"header":{"cluster_id":"1"})" + (rest.empty() ? "" : "," + rest) + "}");
}
std::string entry(const std::string& key, const std::string& value, const std::string& version) {
  return fmt::format(R"("kvs":[{{"key":"{}","value":"{}","version":{}}}])", base64(key), value,
                     version);
}

class EtcdAnswersTest : public testing::Test {
 protected:
  // Asks once.
  static std::unique_ptr<Registry> registry(const ToldServer& server,
                                            milliseconds patience = milliseconds(20'000)) {
    return std::make_unique<EtcdRegistry>(
        RegistryUrl{RegistryUrl::Kind::kEtcd, {server.address()}, "/p"},
        EtcdClient::Timing{.patience = patience, .attempt = patience, .pause = patience});
  }
  // What get() says to this answer.
  static std::string problem(const std::string& answer) {
    const ToldServer server([&](const std::string&) { return answer; });
    const Result<Record> record = registry(server)->get("view");
    return record.ok() ? "" : record.error().message;
  }
  static void says(const std::string& answer, const std::string& words) {
    const std::string message = problem(answer);
    EXPECT_NE(message.find(words), std::string::npos)
        << answer.substr(0, 200) << "\n-> " << message;
  }
};

TEST_F(EtcdAnswersTest, ARecordIsRead) {
  const ToldServer server([](const std::string&) {
    return with_header(entry("/p/newest/view", base64("rubato1 3 me\nhello"), "\"3\""));
  });
  const Result<Record> record = registry(server)->get("view");
  ASSERT_TRUE(record.ok()) << record.error().message;
  EXPECT_EQ(record->version, 3);
  EXPECT_EQ(record->value, "hello");
  EXPECT_EQ(problem(with_header("")), "");  // there is none
}

TEST_F(EtcdAnswersTest, WhatIsNotHttp) {
  says("SSH-2.0-OpenSSH_9.2\r\n", "not HTTP");
  says("", "connection was closed");
  says("HTTP/1.1 200", "connection was closed");
  says("HTTP/1.1 abc Words\r\n\r\n", "not HTTP");
  says("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "no ':'");
  says("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "not a number");
  says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "not a number");
  says("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "too long");
  says("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "gzip");
  says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk");
  says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n", "chunk");
  says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{} and more", "more than it was asked for");
  says("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'), "too long");
  says(std::string(1'000'000, '\0'), "not HTTP");
}

TEST_F(EtcdAnswersTest, WhatIsNotEtcd) {
  says(http("<html>"), "no JSON object");
  says(http("[]"), "no JSON object");
  says(http(std::string(100'000, '[')), "no JSON object");
  says(http("404 page not found", 404), "with its JSON gateway");
  says(http("{}"), "another cluster");
  says(http(R"({"header":7})"), "another cluster");
  says(http(R"({"error":"etcdserver: no leader","code":14})", 503), "no leader");
  says(http(R"({"code":5,"message":"what"})", 404), "what");
  says(http(R"({"error":7,"code":"x"})", 500), "status 500");
  says("HTTP/1.1 200 OK\r\n\r\n" + std::string(9 << 20, ' '), "longer than");
}

TEST_F(EtcdAnswersTest, WhatIsNoRecord) {
  const std::string key = "/p/newest/view";
  says(with_header(R"("kvs":7)"), "not that of one key");
  says(with_header(R"("kvs":[])"), "not that of one key");
  says(with_header(R"("kvs":[7])"), "not that of one key");
  says(with_header(R"("kvs":[{}])"), "cannot be read");
  says(with_header(entry("/another", base64("rubato1 1 me\nx"), "\"1\"")), "cannot be read");
  says(with_header(entry(key, "wrong base64!", "\"1\"")), "cannot be read");
  says(with_header(entry(key, "AAA", "\"1\"")), "cannot be read");
  says(with_header(entry(key, base64("rubato1 1 me\nx"), "\"one\"")), "cannot be read");
  says(with_header(entry(key, base64("rubato1 1 me\nx"), "1.5")), "cannot be read");
  says(with_header(entry(key, base64("of another program"), "\"1\"")), "not written by rubato");
  says(with_header(entry(key, base64("rubato1 x me\nx"), "\"1\"")), "not written by rubato");
  says(with_header(entry(key, base64("rubato1 2 me\nx"), "\"1\"")), "something else has written");
}

TEST_F(EtcdAnswersTest, ASwapWithoutAnAnswerThatCanBeReadIsNotClaimed) {
  for (const std::string& answer :
       {with_header(""), with_header(R"("responses":7)"), with_header(R"("responses":[{}])"),
        with_header(R"("succeeded":"yes","responses":[{"response_range":7}])"),
        with_header(R"("responses":[{"response_range":{"kvs":7}}])"), http("garbage")}) {
    const ToldServer server([&](const std::string&) { return answer; });
    const Result<bool> won = registry(server)->compare_and_swap("view", 0, "x");
    ASSERT_FALSE(won.ok()) << answer;
    EXPECT_NE(won.error().code, ErrorCode::kRefused) << won.error().message;
  }
}

// What etcd itself refuses, such as for want of space, was surely not written.
TEST_F(EtcdAnswersTest, WhatEtcdRefusesWasNotWritten) {
  const ToldServer server([](const std::string&) {
    return http(R"({"error":"etcdserver: mvcc: database space exceeded","code":8})", 429);
  });
  const Result<bool> won = registry(server)->compare_and_swap("view", 0, "x");
  ASSERT_FALSE(won.ok());
  EXPECT_EQ(won.error().code, ErrorCode::kRefused);
  EXPECT_NE(won.error().message.find("space exceeded"), std::string::npos) << won.error().message;
}

// A byte now and then keeps nobody waiting.
TEST_F(EtcdAnswersTest, ASlowAnswerIsGivenUp) {
  const ToldServer server([](const std::string&) { return std::string("HTTP/1.1 200 OK\r\nX: "); },
                          milliseconds(10));
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(registry(server, milliseconds(300))->get("view").ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST_F(EtcdAnswersTest, RandomBytes) {
  const std::string good =
      with_header(entry("/p/newest/view", base64("rubato1 3 me\nhello"), "\"3\""));
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::string bad = good;
    for (std::uint32_t i = 0; i <= random.below(4); ++i) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(bad.size()));
      if (random.below(3) == 0) bad.resize(at + 1);
      bad[at] = static_cast<char>(random.below(256));
    }
    SCOPED_TRACE(seed);
    static_cast<void>(problem(bad));
  }
}

// A watch is told of news, whatever comes before and after that.
TEST_F(EtcdAnswersTest, AWatchSurvivesWhatItHears) {
  std::atomic<int> calls{0};
  const ToldServer server([&](const std::string&) {
    const std::string begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string news = "{\"result\":{\"created\":true}}\n";
    const std::string chunk = fmt::format("{:x}\r\n{}\r\n", news.size(), news);
    switch (calls++ % 4) {
      case 0:
        return std::string("garbage");
      case 1:
        return begin + "5\r\n[[[[\n\r\n";
      case 2:
        return begin + "a\r\n{\"error\":7\n\r\n";
      default:
        return begin + chunk;
    }
  });
  std::atomic<int> told{0};
  const auto watched = registry(server);
  const auto watch = watched->watch([&] { ++told; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (told < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_GE(told, 2);
}

}  // namespace
}  // namespace rubato::elastic
