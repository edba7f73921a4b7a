// Plans at a time: bounded, fair to tenants, answered in time and abandoned with their callers.
#include "api/plans.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "api/api_fixture.h"
#include "api/raw_socket.h"

namespace rubato::api {
namespace {

const std::function<bool()> kStays = [] { return false; };

Reply work_done(const Plans::Abandoned&) { return {.status = 200}; }

// Plans that stay in progress until they are released.
class Held {
 public:
  explicit Held(Plans& plans) : plans_(plans) {}
  ~Held() { release(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  void hold(const std::string& tenant) {
    std::promise<void> begun;
    std::future<void> begins = begun.get_future();
    callers_.emplace_back([this, tenant, begun = std::move(begun)]() mutable {
      plans_.run(tenant, kStays, [&](const Plans::Abandoned&) {
        begun.set_value();
        released_.wait();
        return Reply{};
      });
    });
    begins.wait();
  }
  void release() {
    if (callers_.empty()) return;
    release_.set_value();
    for (std::thread& caller : callers_) caller.join();
    callers_.clear();
  }

 private:
  Plans& plans_;
  std::promise<void> release_;
  std::shared_future<void> released_{release_.get_future().share()};
  std::vector<std::thread> callers_;
};

TEST(Plans, ATenantLeavesPlacesToTheOthers) {
  Plans plans({.most = 4, .answer_s = 3600});
  Held held(plans);
  const auto status = [&](const char* tenant) {
    return plans.run(tenant, kStays, work_done).status;
  };
  held.hold("red");
  held.hold("red");
  const Reply refused = plans.run("red", kStays, work_done);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("Retry-After"), "1");
  EXPECT_NE(refused.body.find("2 of your plans are in progress"), std::string::npos)
      << refused.body;
  EXPECT_EQ(status("blue"), 200);
  held.hold("blue");
  EXPECT_EQ(status("blue"), 429);  // the last place is for somebody who has none
  EXPECT_EQ(status("green"), 200);
  held.hold("green");
  EXPECT_EQ(status("grey"), 429);
  held.release();
  EXPECT_EQ(status("red"), 200);
}

TEST(Plans, ACallerThatIsGoneEndsItsPlan) {
  Plans plans({.most = 1, .answer_s = 3600});
  std::promise<void> noticed;
  const Reply reply = plans.run(
      "red", [] { return true; },
      [&](const Plans::Abandoned& abandoned) {
        while (!abandoned()) std::this_thread::yield();
        noticed.set_value();
        return Reply{};
      });
  EXPECT_EQ(reply.status, 503);
  noticed.get_future().wait();
  // Its place is free again.
  while (plans.run("red", kStays, work_done).status == 429) std::this_thread::yield();
}

TEST(Plans, AnAnswerComesInTimeAlthoughTheWorkDoesNot) {
  std::promise<void> release;
  std::future<void> released = release.get_future();
  Plans plans({.most = 1, .answer_s = 0.01});  // ends first: the work waits for the promise
  const Reply reply = plans.run("red", kStays, [&](const Plans::Abandoned&) {
    released.wait();
    return Reply{};
  });
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("plan-too-slow"), std::string::npos) << reply.body;
  EXPECT_EQ(plans.run("red", kStays, work_done).status, 429);  // it still takes its place
  release.set_value();
}

TEST(Plans, TheyEndWithTheDaemon) {
  Plans plans({.most = 4, .answer_s = 3600});
  std::promise<void> begun;
  std::thread caller([&] {
    const Reply reply = plans.run("red", kStays, [&](const Plans::Abandoned& abandoned) {
      begun.set_value();
      while (!abandoned()) std::this_thread::yield();
      return Reply{};
    });
    EXPECT_TRUE(reply.status == 503 || reply.status == 200) << reply.status;
  });
  begun.get_future().wait();
  plans.stop();
  caller.join();
  EXPECT_EQ(plans.run("red", kStays, work_done).status, 503);
}

TEST(Plans, AnExceptionIsAnAnswer) {
  Plans plans(PlanOptions{});
  const Reply reply = plans.run(
      "red", kStays, [](const Plans::Abandoned&) -> Reply { throw std::runtime_error("boom"); });
  EXPECT_EQ(reply.status, 500);
}

// The connection closes while the handler works: the handler can notice.
TEST(FrontOfPlans, AHandlerSeesThatItsClientIsGone) {
  std::promise<void> begun;
  std::promise<void> noticed;
  Front front({}, nullptr,
              [&](const httplib::Request&, httplib::Response& response, const Front::Gone& gone) {
                EXPECT_FALSE(gone());
                begun.set_value();
                while (!gone()) std::this_thread::yield();
                noticed.set_value();
                response.status = 200;
              });
  ASSERT_TRUE(front.listen_on("127.0.0.1", 0).ok());
  {
    const RawSocket client(front.port());
    ASSERT_TRUE(client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n"));
    begun.get_future().wait();
  }
  noticed.get_future().wait();
  front.stop_all();
}

class PlanRoute : public ApiTest {};

TEST_F(PlanRoute, AnswersWithAThousandQueuedJobs) {
  std::vector<std::thread> clients(20);  // those that wait together become durable together
  for (std::thread& client : clients) {
    client = std::thread([&] {
      for (int i = 0; i < 50; ++i) {
        control::JobDocument document;
        document.run = {"/bin/true"};
        EXPECT_TRUE(controller_->submit(admin_caller_, document, "").ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const Got got = ask("POST", "/api/v1/plan", alice_, {{"run", {"/bin/true"}}});
  ASSERT_TRUE(got.status == 200 || got.status == 503) << got.body;
  EXPECT_TRUE(got.status == 200 || got.json["error"]["code"] == "plan-too-slow") << got.body;
}

TEST_F(PlanRoute, RefusesWhatASubmissionWouldRefuse) {
  const Got relative =
      ask("POST", "/api/v1/jobs", alice_, {{"run", {"/bin/true"}}, {"dir", "here"}});
  EXPECT_EQ(relative.status, 400);
  EXPECT_EQ(relative.json["error"]["path"], "/dir");
  EXPECT_NE(relative.body.find("over HTTP it must be absolute"), std::string::npos)
      << relative.body;
  EXPECT_EQ(ask("POST", "/api/v1/plan", alice_, {{"run", {"/bin/true"}}, {"dir", "."}}).status,
            400);
  ASSERT_TRUE(controller_->set_tenant(admin_caller_, "alice", {.quota = 2}).ok());
  const nlohmann::json large = {{"run", {"/bin/true"}}, {"devices", "3..4"}};
  for (const char* path : {"/api/v1/jobs", "/api/v1/plan"}) {
    const Got got = ask("POST", path, alice_, large);
    EXPECT_EQ(got.status, 400);
    EXPECT_NE(got.body.find("may hold at most 2 (its quota)"), std::string::npos) << got.body;
  }
}

// Readers of JSON disagree about which of two equal fields counts.
TEST_F(PlanRoute, AFieldThatIsThereTwiceIsRefusedByName) {
  const httplib::Headers type{{"Content-Type", "application/json"}};
  for (const char* body : {R"({"run": ["/bin/true"], "name": "a", "name": "b"})",
                           R"({"run": ["/bin/true"], "env": {"name": "a", "name": "b"}})"}) {
    const Got got = ask_raw("POST", "/api/v1/jobs", alice_, body, type);
    EXPECT_EQ(got.status, 400) << body;
    EXPECT_EQ(got.json["error"]["message"], "the field 'name' is there twice");
  }
  const Got scaled =
      ask_raw("PUT", "/api/v1/tenants/carol", admin_, R"({"weight": 1, "weight": 2})", type);
  EXPECT_EQ(scaled.status, 400) << scaled.body;
  // Equal names in different objects are fine.
  const Got fine = ask_raw("POST", "/api/v1/jobs", alice_,
                           R"({"run": ["/bin/true"], "name": "a", "env": {"name": "b"}})", type);
  EXPECT_EQ(fine.status, 201) << fine.body;
}

// `rubato status 'j15/why'` printed an empty job.
TEST_F(PlanRoute, ASlashInANameIsPartOfTheName) {
  submit(alice_);
  const Got got = ask("GET", "/api/v1/jobs/j1%2Fwhy", alice_);
  EXPECT_EQ(got.status, 404) << got.body;
  EXPECT_EQ(got.json["error"]["message"], "there is no job j1/why");
}

}  // namespace
}  // namespace rubato::api
