// Tenants: partial changes, deletion, expiry, limits, and streams that end with a token.
#include "api/api_fixture.h"
#include "api/raw_socket.h"

namespace rubato::api {
namespace {

class TenantsTest : public ApiTest {
 protected:
  RawSocket open_stream(const std::string& token) {
    RawSocket client(server_->port());
    client.send(
        "GET /api/v1/events HTTP/1.1\r\nAccept: text/event-stream\r\nAuthorization: Bearer " +
        token + "\r\n\r\n");
    return client;
  }
  // Opens a stream and waits for its head. Keep the result.
  RawSocket open_good_stream(const std::string& token) {
    RawSocket client = open_stream(token);
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_NE(head.find(" 200 "), std::string::npos) << head;
    return client;
  }
  static void expect_end(const RawSocket& client) {
    constexpr const char* kLastChunk = "0\r\n\r\n";
    const std::string rest = client.read_until(kLastChunk);
    EXPECT_TRUE(client.closed_by_server() || rest.find(kLastChunk) != std::string::npos) << rest;
  }
  nlohmann::json tenant(const std::string& name) {
    const Got list = ask("GET", "/api/v1/tenants", admin_);
    for (const auto& one : list.json["tenants"]) {
      if (one["name"] == name) return one;
    }
    return nullptr;
  }
};

// Rotating a token removed the quota.
TEST_F(TenantsTest, AChangeLeavesTheRestAsItIs) {
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, {{"weight", 2}, {"quota", 3}}).status, 200);
  const Got rotated = ask("PUT", "/api/v1/tenants/alice", admin_, {{"new_token", true}});
  ASSERT_EQ(rotated.status, 200);
  EXPECT_TRUE(rotated.json.contains("token"));
  EXPECT_EQ(rotated.json["weight"], 2);
  EXPECT_EQ(rotated.json["quota"], 3);
  const Got changed = ask("PUT", "/api/v1/tenants/alice", admin_, {{"max_queued", 7}});
  EXPECT_FALSE(changed.json.contains("token"));
  EXPECT_EQ(tenant("alice")["quota"], 3);
  EXPECT_EQ(tenant("alice")["max_queued"], 7);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 401) << "the old token";
}

TEST_F(TenantsTest, ADeletedTenantIsGone) {
  const std::int64_t job = submit(alice_);
  const Got refused = ask("DELETE", "/api/v1/tenants/alice", admin_);
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(refused.body.find("j" + std::to_string(job)), std::string::npos) << refused.body;
  EXPECT_EQ(ask("DELETE", "/api/v1/tenants/alice", bob_).status, 403);
  EXPECT_EQ(ask("DELETE", "/api/v1/tenants/alice?cancel=true", admin_).status, 204);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 401);
  EXPECT_TRUE(tenant("alice").is_null());
  EXPECT_EQ(ask("GET", "/api/v1/jobs/" + std::to_string(job), admin_).json["phase"], "cancelled");
  EXPECT_EQ(ask("DELETE", "/api/v1/tenants/alice", admin_).status, 404);
  EXPECT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, nlohmann::json::object()).status, 200);
}

TEST_F(TenantsTest, ATokenExpires) {
  EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 200);
  const RawSocket stream = open_good_stream(alice_);
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, {{"expires_in_s", 0.001}}).status, 200);
  expect_end(stream);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 401);
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, {{"expires_in_s", 0}}).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", alice_).status, 200) << "valid again";
}

// Open streams still delivered new job documents after a rotation.
TEST_F(TenantsTest, StreamsEndWithTheirToken) {
  const RawSocket rotated = open_good_stream(alice_);
  const RawSocket other = open_good_stream(bob_);
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, {{"new_token", true}}).status, 200);
  expect_end(rotated);
  ASSERT_EQ(ask("DELETE", "/api/v1/tenants/bob", admin_).status, 204);
  expect_end(other);
}

// One tenant's streams gave everybody else 503.
TEST_F(TenantsTest, OneTenantCannotTakeAllStreams) {
  start_server({.streams = 4});
  std::vector<RawSocket> streams;
  for (int i = 0; i < 2; ++i) streams.push_back(open_good_stream(alice_));
  const Got third =
      ask("GET", "/api/v1/events", alice_, nullptr, {{"Accept", "text/event-stream"}});
  EXPECT_EQ(third.status, 503) << third.body;
  streams.push_back(open_good_stream(bob_));
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/bob", admin_, {{"max_streams", 1}}).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/events", bob_, nullptr, {{"Accept", "text/event-stream"}}).status,
            503);
  streams.push_back(open_good_stream(admin_));
}

TEST_F(TenantsTest, AQueueHasALimit) {
  ASSERT_EQ(ask("PUT", "/api/v1/tenants/alice", admin_, {{"max_queued", 2}}).status, 200);
  const std::int64_t first = submit(alice_);
  submit(alice_);
  const auto third = ask_raw("POST", "/api/v1/jobs", alice_, "{\"run\": [\"/bin/true\"]}",
                             {{"Content-Type", "application/json"}});
  EXPECT_EQ(third.status, 409) << third.body;
  submit(bob_);
  ASSERT_EQ(ask("POST", "/api/v1/jobs/" + std::to_string(first) + "/cancel", alice_).status, 200);
  submit(alice_);
}

TEST_F(TenantsTest, CommandsAreRecordedWithTheirAddress) {
  submit(alice_);
  const Got log = ask("GET", "/api/v1/events", admin_);
  bool found = false;
  for (const auto& event : log.json["events"]) {
    if (event["type"] != "submitted") continue;
    found = true;
    EXPECT_EQ(event["by"], "tenant alice");
    EXPECT_EQ(event["from"], "127.0.0.1");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(ask("GET", "/api/v1/events", alice_).body.find("\"from\""), std::string::npos);
}

}  // namespace
}  // namespace rubato::api
