// Every route with every kind of caller.
#include "api/api_fixture.h"

namespace rubato::api {
namespace {

std::string filled_in(std::string path, std::int64_t job, std::int64_t reservation) {
  const auto replace = [&](const std::string& name, const std::string& value) {
    const std::size_t at = path.find(name);
    if (at != std::string::npos) path.replace(at, name.size(), value);
  };
  replace("{job}", std::to_string(job));
  replace("{reservation}", std::to_string(reservation));
  replace("{tenant}", "alice");
  replace("{node}", "n1");
  return path;
}

class AuthTest : public ApiTest {
 protected:
  int status(const Route& route, const std::string& token) {
    const std::int64_t job = submit(alice_);
    const auto reservations = controller_->reservations();
    const std::int64_t reservation = reservations.empty() ? 1 : reservations.front().number;
    return ask(route.method, filled_in(route.path, job, reservation), token, good_body(route))
        .status;
  }
};

// What a route that is open to anyone answers to good_body().
int status_for_anyone(const Route& route) {
  if (route.name == "logIn") return 401;  // the token is wrong
  if (route.name == "logOut") return 204;
  return route.name == "getAsset" ? 404 : 200;  // there is no such file
}

bool is_of_one_job(const Route& route) { return route.path.find("{job}") != std::string::npos; }
// Needs more than its path; but whoever may not call it learns nothing of that.
bool is_let_in(const Route& route, int status) {
  if (route.who == Who::kAnyone) return status == status_for_anyone(route);
  return (route.name == "getFile" || route.name == "putUpload") && status == 400;
}
bool is_done(int status) { return (status >= 200 && status < 300) || status == 409; }

TEST_F(AuthTest, WithoutAToken) {
  for (const Route& route : routes()) {
    EXPECT_EQ(status(route, ""), route.who == Who::kAnyone ? status_for_anyone(route) : 401)
        << route.name;
  }
}

TEST_F(AuthTest, WithAWrongToken) {
  for (const std::string token :
       {"wrong", "rbt_00000000000000000000000000000000", "Bearer", "\xc3\xa4", "a b", " "}) {
    for (const Route& route : routes()) {
      EXPECT_EQ(status(route, token), route.who == Who::kAnyone ? status_for_anyone(route) : 401)
          << route.name << " " << token;
    }
  }
}

TEST_F(AuthTest, WithAnotherTenantsToken) {
  for (const Route& route : routes()) {
    const int got = status(route, bob_);
    if (route.who != Who::kAnyone && route.who != Who::kTenant) {
      EXPECT_EQ(got, 403) << route.name;
    } else if (is_of_one_job(route)) {
      EXPECT_EQ(got, 404) << route.name;
    } else {
      EXPECT_TRUE(is_done(got) || is_let_in(route, got)) << route.name << " " << got;
    }
  }
  EXPECT_EQ(ask("GET", "/api/v1/jobs/mnist", bob_).json["tenant"],
            "bob");  // bob's own job
}

TEST_F(AuthTest, WithTheOwnersToken) {
  for (const Route& route : routes()) {
    const int got = status(route, alice_);
    if (route.who != Who::kAnyone && route.who != Who::kTenant) {
      EXPECT_EQ(got, 403) << route.name;
    } else {
      EXPECT_TRUE(is_done(got) || is_let_in(route, got)) << route.name << " " << got;
    }
  }
}

TEST_F(AuthTest, WithTheAdministratorsToken) {
  for (const Route& route : routes()) {
    const int got = status(route, admin_);
    // Another reservation already has all devices.
    if (route.name == "makeReservation" && got == 400) continue;
    if (route.who == Who::kAgent) {
      EXPECT_EQ(got, 403) << route.name;
      continue;
    }
    if (route.who == Who::kCopier) {  // this daemon has no nodes
      EXPECT_EQ(got, 404) << route.name;
      continue;
    }
    EXPECT_TRUE(is_done(got) || is_let_in(route, got)) << route.name << " " << got;
  }
}

TEST_F(AuthTest, ATenantCannotSubmitForAnother) {
  const Got got = ask("POST", "/api/v1/jobs", bob_, {{"run", {"/bin/true"}}, {"tenant", "alice"}});
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/jobs", admin_, {{"run", {"/bin/true"}}, {"tenant", "alice"}})
                .json["tenant"],
            "alice");
}

TEST_F(AuthTest, MetricsMayBeOpened) {
  EXPECT_EQ(ask("GET", "/metrics", "").status, 401);
  start_server({.open_metrics = true});
  EXPECT_EQ(ask("GET", "/metrics", "").status, 200);
}

// The browser's test of a replaced token failed once on a busy machine: a stream that was let in
// with the old token, and began after it was replaced, went on for ever.
TEST_F(AuthTest, WhoWasLetInWithATokenIsNobodyElseWhenItIsReplacedAtThatMoment) {
  const auto caller = controller_->authenticate(alice_);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->token_version, controller_->token_version(*caller));
  ASSERT_TRUE(controller_->set_tenant(admin_caller_, "alice", {.new_token = true}).ok());
  EXPECT_NE(caller->token_version, controller_->token_version(*caller));
  EXPECT_FALSE(controller_->session_caller(controller_->make_session(*caller, 60)));
}

}  // namespace
}  // namespace rubato::api
