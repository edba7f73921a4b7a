// Event streams: past events, new events, and resuming after an interruption.
#include "api/api_fixture.h"
#include "api/raw_socket.h"

namespace rubato::api {
namespace {

class StreamsTest : public ApiTest {
 protected:
  RawSocket open(const std::string& path, const std::string& token, std::int64_t last) {
    RawSocket client(server_->port());
    client.send("GET " + path + " HTTP/1.1\r\nAccept: text/event-stream\r\nAuthorization: Bearer " +
                token + "\r\nLast-Event-ID: " + std::to_string(last) + "\r\n\r\n");
    return client;
  }
  std::int64_t last_event() {
    const auto events = controller_->events(admin_caller_, 0, 0, 10'000, 0);
    return events.ok() && !events->empty() ? events->back().seq : 0;
  }
};

TEST_F(StreamsTest, EventsComeAsTheyHappen) {
  const RawSocket client = open("/api/v1/events", admin_, last_event());
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("text/event-stream"), std::string::npos) << head;
  const std::int64_t number = submit(alice_);
  const std::string text = client.read_until("\"job\":" + std::to_string(number));
  EXPECT_NE(text.find("id: "), std::string::npos) << text;
  EXPECT_NE(text.find("event: submitted\n"), std::string::npos) << text;
}

TEST_F(StreamsTest, AnInterruptedStreamGoesOnWhereItWas) {
  const std::int64_t before = last_event();
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < 3; ++i) numbers.push_back(submit(alice_));
  std::string first;
  {
    const RawSocket client = open("/api/v1/events", alice_, before);
    first = client.read_until("event: submitted");
  }
  const std::size_t at = first.find("id: ");
  ASSERT_NE(at, std::string::npos) << first;
  const std::int64_t seen = std::atoll(first.c_str() + at + 4);
  EXPECT_GT(seen, before);
  const RawSocket again = open("/api/v1/events", alice_, seen);
  const std::string rest = again.read_until("\"job\":" + std::to_string(numbers[2]));
  EXPECT_EQ(rest.find("id: " + std::to_string(seen) + "\n"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("\"job\":" + std::to_string(numbers[0]) + ","), std::string::npos) << rest;
}

TEST_F(StreamsTest, AStreamHasOnlyTheCallersEvents) {
  const std::int64_t before = last_event();
  submit(bob_, "secret");
  submit(alice_, "mine");
  const RawSocket client = open("/api/v1/events", alice_, before);
  const std::string text = client.read_until("mine");
  EXPECT_NE(text.find("mine"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
}

TEST_F(StreamsTest, AWrongLastEventIsRefused) {
  for (const char* wrong : {"x", "-1", "1e3", "99999999999999999999"}) {
    const Got got = ask("GET", "/api/v1/events", admin_, nullptr,
                        {{"Accept", "text/event-stream"}, {"Last-Event-ID", wrong}});
    EXPECT_EQ(got.status, 400) << wrong;
  }
}

TEST_F(StreamsTest, StreamsEndWithTheServer) {
  const RawSocket client = open("/api/v1/events", admin_, 0);
  client.read_until("\r\n\r\n");
  server_.reset();
  client.read_to_end();
  EXPECT_TRUE(client.closed_by_server());
}

}  // namespace
}  // namespace rubato::api
