// What the API has for the dashboard: sessions of browsers, series, devices of any time, searches
// in the events, the page itself.
#include <chrono>
#include <thread>

#include "api/api_fixture.h"

namespace rubato::api {
namespace {

using nlohmann::json;

class DashboardTest : public ApiTest {
 protected:
  // The cookie that a login with this token sets; empty: none.
  std::string log_in(const std::string& token, const httplib::Headers& headers = {}) {
    const Got got = ask("POST", "/api/v1/session", "", {{"token", token}}, headers);
    const auto cookie = got.headers.find("Set-Cookie");
    if (cookie == got.headers.end()) return "";
    cookie_attributes_ = cookie->second.substr(cookie->second.find(';'));
    return cookie->second.substr(0, cookie->second.find(';'));
  }
  std::string origin() const { return server_->url(); }

  std::string cookie_attributes_;
};

TEST_F(DashboardTest, ATokenIsExchangedForACookie) {
  const std::string cookie = log_in(alice_);
  ASSERT_NE(cookie, "");
  EXPECT_EQ(cookie.find(alice_), std::string::npos) << "not the token itself";
  EXPECT_EQ(cookie_attributes_, "; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
  const Got who = ask("GET", "/api/v1/session", "", nullptr, {{"Cookie", "x=1; " + cookie}});
  EXPECT_EQ(who.status, 200);
  EXPECT_EQ(who.json, (json{{"admin", false}, {"tenant", "alice"}, {"name", "alice"}}));
  submit(bob_);
  EXPECT_TRUE(ask("GET", "/api/v1/jobs", "", nullptr, {{"Cookie", cookie}}).json["jobs"].empty());
  EXPECT_EQ(ask("GET", "/api/v1/snapshot", "", nullptr, {{"Cookie", cookie}}).status, 403);
  EXPECT_EQ(ask("GET", "/api/v1/session", admin_).json["name"], "administrator");
  const Got ended = ask("DELETE", "/api/v1/session", "");
  EXPECT_EQ(ended.status, 204);
  EXPECT_NE(ended.headers.find("Set-Cookie")->second.find("=; "), std::string::npos);
}

TEST_F(DashboardTest, WrongTokensGetNoSession) {
  EXPECT_EQ(ask("POST", "/api/v1/session", "", {{"token", "wrong"}}).status, 401);
  EXPECT_EQ(ask("POST", "/api/v1/session", "", {{"token", ""}}).status, 400);
  const std::string cookie = log_in(alice_);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", "", nullptr, {{"Cookie", cookie + "0"}}).status, 401);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", "wrong", nullptr, {{"Cookie", cookie}}).status, 401)
      << "a token counts before a cookie";
}

TEST_F(DashboardTest, OnlyOurOwnPageChangesSomethingWithACookie) {
  const std::string cookie = log_in(alice_);
  const std::string path = "/api/v1/jobs/" + std::to_string(submit(alice_)) + "/cancel";
  const auto cancel = [&](const httplib::Headers& headers) {
    return ask("POST", path, "", nullptr, headers).status;
  };
  EXPECT_EQ(cancel({{"Cookie", cookie}}), 403);
  EXPECT_EQ(cancel({{"Cookie", cookie}, {"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(cancel({{"Cookie", cookie}, {"Origin", "null"}}), 403);
  EXPECT_EQ(cancel({{"Cookie", cookie}, {"Origin", origin()}}), 200);
  EXPECT_EQ(log_in(alice_, {{"Origin", "http://evil.example"}}), "");
  EXPECT_NE(log_in(alice_, {{"Origin", origin()}}), "");
}

TEST_F(DashboardTest, ASessionEndsWithItsToken) {
  const std::string cookie = log_in(alice_);
  const auto status = [&] {
    return ask("GET", "/api/v1/jobs", "", nullptr, {{"Cookie", cookie}}).status;
  };
  EXPECT_EQ(status(), 200);
  ASSERT_TRUE(controller_->set_tenant(admin_caller_, "alice", {.new_token = true}).ok());
  EXPECT_EQ(status(), 401);
}

TEST_F(DashboardTest, SeriesOfTheClusterAndOfAJob) {
  const std::int64_t job = submit(alice_);
  json series;
  for (int i = 0; i < 1000 && (series.is_null() || series["at"].empty()); ++i) {
    series = ask("GET", "/api/v1/series", alice_).json;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_FALSE(series["at"].empty());
  EXPECT_EQ(series["devices"].back(), 4);
  EXPECT_EQ(ask("GET", "/api/v1/series?from=-1", alice_).status, 400);
  const std::string path = "/api/v1/jobs/" + std::to_string(job) + "/series";
  EXPECT_TRUE(ask("GET", path, alice_).json["points"].empty()) << "it has no devices";
  EXPECT_EQ(ask("GET", path, bob_).status, 404);
}

TEST_F(DashboardTest, DevicesNowAndBefore) {
  const json now = ask("GET", "/api/v1/devices", alice_).json;
  ASSERT_EQ(now["nodes"].size(), 1U);
  EXPECT_EQ(now["nodes"][0]["devices"], 4);
  EXPECT_TRUE(now["held"].empty());
  EXPECT_EQ(now["nodes"][0]["reserved"], 4);
  ASSERT_EQ(now["reservations"].size(), 1U);
  const std::int64_t since = now["reservations"][0]["from"].get<std::int64_t>();
  const json later = ask("GET", "/api/v1/devices?at=" + std::to_string(since + 1), alice_).json;
  EXPECT_EQ(later["nodes"][0]["reserved"], 4) << later;
  EXPECT_EQ(later["reservations"][0]["devices"], 4) << later;
  EXPECT_TRUE(ask("GET", "/api/v1/devices?at=1000", alice_).json["nodes"].empty());
}

TEST_F(DashboardTest, EventsAreSearched) {
  const std::int64_t job = submit(alice_);
  submit(bob_);
  const auto types = [&](const std::string& query) {
    std::vector<std::string> found;
    const Got got = ask("GET", "/api/v1/events?" + query, admin_);
    for (const json& event : got.json["events"]) found.push_back(event["type"]);
    return found;
  };
  EXPECT_EQ(types("types=submitted"), (std::vector<std::string>{"submitted", "submitted"}));
  EXPECT_EQ(types("types=tenant,reserved&newest_first=true&limit=2"),
            (std::vector<std::string>{"tenant", "tenant"}));
  EXPECT_TRUE(types("since=99999999999").empty());
  EXPECT_TRUE(types("until=1000").empty());
  EXPECT_EQ(types("before=2"), std::vector<std::string>{"started"});
  EXPECT_EQ(ask("GET", "/api/v1/events?types=nothing", admin_).status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/events?types=submitted", alice_).json["events"].size(), 1U);
  const json own =
      ask("GET", "/api/v1/jobs/" + std::to_string(job) + "/events?newest_first=1", alice_).json;
  EXPECT_EQ(own["events"].back()["type"], "submitted");
  EXPECT_EQ(ask("GET", "/api/v1/events?watch=nothing", alice_).status, 404);
}

TEST_F(DashboardTest, WhatWouldHappenUnderAnotherPolicy) {
  submit(alice_, "mine");
  submit(bob_, "theirs");
  const Got got = ask("POST", "/api/v1/forecast", alice_, {{"name", "fifo"}});
  ASSERT_EQ(got.status, 200) << got.body;
  ASSERT_EQ(got.json["jobs"].size(), 1U);
  EXPECT_EQ(got.json["jobs"][0]["name"], "mine");
  EXPECT_EQ(ask("POST", "/api/v1/forecast", alice_, {{"name", "nothing"}}).status, 400);
  EXPECT_EQ(controller_->policy_name(), "rubato");
}

TEST_F(DashboardTest, WhatIsExpectedOfAJob) {
  const std::int64_t job = submit(alice_, "mine");
  submit(bob_, "theirs");
  const std::string path = "/api/v1/jobs/" + std::to_string(job) + "/outlook";
  const Got got = ask("GET", path, alice_);
  ASSERT_EQ(got.status, 200) << got.body;
  EXPECT_EQ(got.json["job"], "j1");
  EXPECT_TRUE(got.json["change"].is_null()) << "all devices are reserved: " << got.body;
  EXPECT_TRUE(got.json["end_in_s"].is_null()) << got.body;
  EXPECT_EQ(got.json["text"], "when it ends is unknown");
  EXPECT_EQ(ask("GET", path, bob_).status, 404);
  ASSERT_EQ(ask("POST", "/api/v1/jobs/j1/cancel", alice_).status, 200);
  EXPECT_EQ(ask("GET", path, alice_).json["text"], "has ended");
}

TEST_F(DashboardTest, ALiveStreamHasSamples) {
  httplib::Client client(server_->url());
  std::string text;
  const auto got =
      client.Get("/api/v1/events?live=true",
                 {{"Authorization", "Bearer " + alice_}, {"Accept", "text/event-stream"}},
                 [&](const char* data, std::size_t size) {
                   text.append(data, size);
                   return text.find("event: sample\n") == std::string::npos;
                 });
  EXPECT_NE(text.find("\"devices\":4.0"), std::string::npos) << text;
  EXPECT_EQ(text.find("id: "), std::string::npos) << "alice has no events: " << text;
}

TEST_F(DashboardTest, ThePageHasAStrictPolicy) {
  const Got page = ask("GET", "/", "");
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.body.find("Rubato"), std::string::npos);
  const std::string policy = page.headers.find("Content-Security-Policy")->second;
  EXPECT_NE(policy.find("default-src 'none'; script-src 'self'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  const std::string etag = page.headers.find("ETag")->second;
  EXPECT_EQ(ask("GET", "/", "", nullptr, {{"If-None-Match", etag}}).status, 304);
  EXPECT_EQ(ask("GET", "/assets/index.html", "").status, 404);
  EXPECT_EQ(ask("GET", "/assets/nothing.js", "").status, 404);
  const Got api = ask("GET", "/healthz", "");
  EXPECT_EQ(api.headers.find("Cache-Control")->second, "no-store");
  EXPECT_EQ(api.headers.find("X-Content-Type-Options")->second, "nosniff");
  EXPECT_NE(api.headers.find("Content-Security-Policy")->second.find("sandbox"), std::string::npos);
}

}  // namespace
}  // namespace rubato::api
