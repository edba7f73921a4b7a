// The responses of each route. The fixture checks every response against the OpenAPI document.
#include <chrono>
#include <filesystem>
#include <thread>

#include "api/api_fixture.h"
#include "api/job_text.h"
#include "base/json_text.h"
#include "test_paths.h"

namespace rubato::api {
namespace {

using nlohmann::json;

TEST_F(ApiTest, TheDocumentIsTheCommittedOne) {
  const Got got = ask("GET", "/api/v1/openapi.json", "");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.json, openapi());
  const auto file = read_file(test_paths::in_source_tree("share/openapi.json"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(parse_json(*file) == got.json)
      << "share/openapi.json differs from what the server serves; run 'make docs'";
}

TEST_F(ApiTest, SubmitsAndShowsAJob) {
  const Got made =
      ask("POST", "/api/v1/jobs", alice_,
          {{"run", {"/bin/true", "--lr", "0.1"}}, {"name", "cnn"}, {"devices", "2..4"}});
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json["tenant"], "alice");
  EXPECT_EQ(made.json["phase"], "queued");
  EXPECT_EQ(made.headers.find("Location")->second,
            "/api/v1/jobs/" + std::to_string(made.json["number"].get<int>()));
  const std::string id = made.json["id"];
  for (const std::string& name : {id, id.substr(1), std::string("cnn")}) {
    const Got got = ask("GET", "/api/v1/jobs/" + name, alice_);
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.json["number"], made.json["number"]);
    EXPECT_EQ(got.json["document"]["devices"], "2..4");
  }
  EXPECT_EQ(ask("GET", "/api/v1/jobs/" + id + "/why", alice_).json["job"], id);
}

TEST_F(ApiTest, TakesYaml) {
  const Got got =
      ask_raw("POST", "/api/v1/jobs", alice_, "run: /bin/true --epochs 3\ndevices: 1..2\n",
              {{"Content-Type", "application/yaml"}});
  ASSERT_EQ(got.status, 201) << got.body;
  EXPECT_EQ(got.json["document"]["run"], json({"/bin/true", "--epochs", "3"}));
  const Got bad = ask_raw("POST", "/api/v1/jobs", alice_, "run: /bin/true\ndevicess: 1..2\n",
                          {{"Content-Type", "application/yaml; charset=utf-8"}});
  EXPECT_EQ(bad.status, 400);
  const std::string message = bad.json["error"]["message"];
  EXPECT_NE(message.find("2:1"), std::string::npos) << message;
  EXPECT_NE(message.find("devices"), std::string::npos) << message;
}

TEST_F(ApiTest, ARepeatedKeyGivesTheSameJob) {
  const json body = {{"run", {"/bin/true"}}};
  const httplib::Headers key{{"Idempotency-Key", "k1"}};
  const Got first = ask("POST", "/api/v1/jobs", alice_, body, key);
  const Got again = ask("POST", "/api/v1/jobs", alice_, body, key);
  const Got other = ask("POST", "/api/v1/jobs", bob_, body, key);  // each tenant has its own keys
  EXPECT_EQ(first.json["number"], again.json["number"]);
  EXPECT_NE(first.json["number"], other.json["number"]);
}

TEST_F(ApiTest, ListsInPages) {
  std::vector<std::int64_t> numbers(5);
  for (std::int64_t& number : numbers) number = submit(alice_);
  submit(bob_);
  EXPECT_EQ(ask("POST", "/api/v1/jobs/" + std::to_string(numbers[1]) + "/cancel", alice_).status,
            200);
  const auto list = [&](const std::string& query) {
    std::vector<std::int64_t> found;
    const Got got = ask("GET", "/api/v1/jobs" + query, alice_);
    for (const json& job : got.json["jobs"]) found.push_back(job["number"].get<std::int64_t>());
    return std::pair(found, got.json["next"]);
  };
  EXPECT_EQ(list("").first, numbers);
  EXPECT_TRUE(list("").second.is_null());
  EXPECT_EQ(list("?limit=2").first, (std::vector{numbers[0], numbers[1]}));
  EXPECT_EQ(list("?limit=2").second, numbers[1]);
  EXPECT_EQ(list("?limit=2&after=" + std::to_string(numbers[1])).first,
            (std::vector{numbers[2], numbers[3]}));
  EXPECT_EQ(list("?active=true").first,
            (std::vector{numbers[0], numbers[2], numbers[3], numbers[4]}));
  EXPECT_EQ(ask("GET", "/api/v1/jobs", admin_).json["jobs"].size(), 6U);
  const std::string newest = "?newest_first=true&limit=2";
  EXPECT_EQ(list(newest).first, (std::vector{numbers[4], numbers[3]}));
  EXPECT_EQ(list(newest).second, numbers[3]);
  EXPECT_EQ(list(newest + "&before=" + std::to_string(numbers[3])).first,
            (std::vector{numbers[2], numbers[1]}));
  EXPECT_EQ(list(newest + "&active=true&before=" + std::to_string(numbers[3])).first,
            (std::vector{numbers[2], numbers[0]}));
  EXPECT_TRUE(list("?submitted_before=1000").first.empty());
  EXPECT_EQ(list("?submitted_before=99999999999").first, numbers);
}

TEST_F(ApiTest, RemovesAJobThatHasEnded) {
  const std::int64_t number = submit(alice_, "gone");
  const std::string job = "/api/v1/jobs/" + std::to_string(number);
  const Got refused = ask("DELETE", job, alice_);
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(refused.body.find("rubato cancel"), std::string::npos) << refused.body;
  ASSERT_EQ(ask("POST", job + "/cancel", alice_).status, 200);
  EXPECT_EQ(ask("DELETE", job, bob_).status, 404);
  EXPECT_EQ(ask("DELETE", "/api/v1/jobs/gone", alice_).json["phase"], "cancelled");
  EXPECT_EQ(ask("DELETE", job, alice_).status, 404);
  EXPECT_EQ(ask("GET", job, alice_).status, 404);
  EXPECT_TRUE(ask("GET", "/api/v1/jobs", alice_).json["jobs"].empty());
  EXPECT_EQ(submit(alice_), number + 1) << "its number is not used again";
}

TEST_F(ApiTest, PausesResumesScalesCancels) {
  const std::string job = "/api/v1/jobs/" + std::to_string(submit(alice_));
  EXPECT_EQ(ask("POST", job + "/resume", alice_).status, 409);
  EXPECT_EQ(ask("POST", job + "/pause", alice_).json["phase"], "paused");
  EXPECT_EQ(ask("POST", job + "/pause", alice_).status, 409);
  EXPECT_EQ(ask("POST", job + "/resume", alice_).json["phase"], "queued");
  // Everything is reserved, so that nothing can be guaranteed.
  EXPECT_EQ(ask("POST", job + "/scale", alice_, {{"devices", 2}}).status, 409);
  EXPECT_EQ(ask("POST", job + "/scale", alice_, {{"devices", 0}}).json["scale"], 0);
  EXPECT_EQ(ask("POST", job + "/cancel", alice_).json["phase"], "cancelled");
  EXPECT_EQ(ask("POST", job + "/cancel", alice_).status, 409);
}

TEST_F(ApiTest, ANameOfSeveralActiveJobsIsRefusedWithTheirIds) {
  const std::int64_t first = submit(alice_, "twin");
  const std::int64_t second = submit(alice_, "twin");
  submit(bob_, "twin");
  for (const std::string path : {"", "/why", "/events", "/logs", "/profile"}) {
    const Got got = ask("GET", "/api/v1/jobs/twin" + path, alice_);
    EXPECT_EQ(got.status, 409) << path << got.body;
    EXPECT_EQ(got.json["error"]["message"], "'twin' means 2 active jobs: j" +
                                                std::to_string(first) + ", j" +
                                                std::to_string(second) + "; use the id");
  }
  EXPECT_EQ(ask("POST", "/api/v1/jobs/twin/cancel", alice_).status, 409);
  EXPECT_EQ(ask("POST", "/api/v1/jobs/j" + std::to_string(second) + "/cancel", alice_).status, 200);
  // One is active: that one, though it is not the newest.
  EXPECT_EQ(ask("GET", "/api/v1/jobs/twin", alice_).json["number"], first);
  EXPECT_EQ(ask("POST", "/api/v1/jobs/twin/cancel", alice_).json["number"], first);
  // None is: the newest, which cannot be cancelled again.
  EXPECT_EQ(ask("GET", "/api/v1/jobs/twin", alice_).json["number"], second);
  EXPECT_EQ(ask("POST", "/api/v1/jobs/twin/cancel", alice_).status, 409);
}

TEST_F(ApiTest, ANumberThatIsAlsoANameIsAmbiguous) {
  const std::int64_t first = submit(alice_, "plain");
  const std::string number = std::to_string(first);
  const std::int64_t named = submit(alice_, number);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/" + number, alice_).status, 409);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/j" + number, alice_).json["number"], first);
  EXPECT_EQ(ask("POST", "/api/v1/jobs/j" + std::to_string(named) + "/cancel", alice_).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/" + number, alice_).json["number"], first);
}

TEST_F(ApiTest, ASlashInsideANameSeparatesNothing) {
  const std::string job = "j" + std::to_string(submit(alice_));
  const Got got = ask("GET", "/api/v1/jobs/" + job + "%2Fwhy", alice_);
  EXPECT_EQ(got.status, 404) << got.body;
  EXPECT_EQ(got.json["error"]["message"], "there is no job " + job + "/why");
  EXPECT_EQ(ask("GET", "/api/v1/jobs/%6D%6e%69st", alice_).json["id"], job);
}

TEST_F(ApiTest, NamesThatCannotBeAskedForAreRefused) {
  for (const char* name : {"x/y", ".hidden", "..", "j12"}) {
    const Got got = ask("POST", "/api/v1/jobs", alice_, {{"run", {"./a"}}, {"name", name}});
    EXPECT_EQ(got.status, 400) << name;
    EXPECT_EQ(got.json["error"]["path"], "/name") << got.body;
  }
  for (const char* name : {"12", "j", "j12a", "a b", "a.b"}) submit(alice_, name);
}

TEST_F(ApiTest, ChangesNameAndPriority) {
  const std::string job = "/api/v1/jobs/" + std::to_string(submit(alice_));
  const Got got = ask("PATCH", job, alice_, {{"priority", -7}, {"name", "other"}});
  ASSERT_EQ(got.status, 200) << got.body;
  EXPECT_EQ(got.json["name"], "other");
  EXPECT_EQ(got.json["document"]["priority"], -7);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/other", alice_).json["document"]["priority"], -7);

  const auto message = [&](const json& body) {
    const Got refused = ask("PATCH", job, alice_, body);
    EXPECT_EQ(refused.status, 400) << refused.body;
    return refused.json["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message({{"prioritty", 1}}),
            "prioritty: unknown field (did you mean 'priority'?); expected one of name, priority");
  EXPECT_EQ(message({{"devices", 2}}), "devices: unknown field; expected one of name, priority");
  EXPECT_EQ(message({{"priority", 1001}}), "priority: must be at most 1000, not 1001");
  EXPECT_EQ(message(json::object()), "expected fields to change: name, priority");
  EXPECT_NE(message({{"name", "a/b"}}).find("must not contain '/'"), std::string::npos);

  EXPECT_EQ(ask("POST", job + "/pause", alice_).status, 200);
  EXPECT_EQ(ask("PATCH", job, alice_, {{"priority", 1}}).status, 200);
  EXPECT_EQ(ask("POST", job + "/resume", alice_).json["document"]["priority"], 1);
  EXPECT_EQ(ask("POST", job + "/cancel", alice_).status, 200);
  EXPECT_EQ(ask("PATCH", job, alice_, {{"priority", 2}}).status, 409);
}

TEST_F(ApiTest, AChangedJobIsTheSameAfterARestart) {
  const std::string job = "/api/v1/jobs/" + std::to_string(submit(alice_));
  const Got before = ask("PATCH", job, alice_, {{"priority", 5}, {"name", "renamed"}});
  server_.reset();
  controller_.reset();
  auto again = control::Controller::start(
      {.folder = folder_, .supervisor = "/bin/false", .machine = {.type = "cpu", .devices = 4}});
  ASSERT_TRUE(again.ok()) << again.error().message;
  controller_ = std::move(*again);
  start_server({});
  EXPECT_EQ(ask("GET", "/api/v1/jobs/renamed", alice_).json["document"], before.json["document"]);
}

TEST_F(ApiTest, TheProfileOfAnUnknownProgramIsEmpty) {
  const std::string job = "/api/v1/jobs/" + std::to_string(submit(alice_));
  const Got got = ask("GET", job + "/profile", alice_);
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.json["points"], json::array());
}

TEST_F(ApiTest, MessagesSayWhatMustBe) {
  const auto message = [&](const std::string& method, const std::string& path, const json& body) {
    return ask(method, path, admin_, body).json["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("PUT", "/api/v1/tenants/carol", {{"weight", -1.0}}),
            "weight: must be greater than 0, not -1");
  EXPECT_EQ(message("PUT", "/api/v1/tenants/carol", {{"quota", "x"}}),
            "quota: must be a whole number, not \"x\"");
  EXPECT_EQ(message("POST", "/api/v1/reservations", {{"devices", 2}, {"seconds", 60}}),
            "devices: all 4 devices are reserved already");
  ASSERT_TRUE(controller_->release(admin_caller_, 1).ok());
  EXPECT_EQ(message("POST", "/api/v1/reservations", {{"devices", 5}, {"seconds", 60}}),
            "devices: 1 to 4 of 4 devices can be reserved, not 5");
}

TEST_F(ApiTest, PlansWithoutChangingAnything) {
  const Got before = ask("GET", "/api/v1/snapshot", admin_);
  const Got got = ask("POST", "/api/v1/plan", alice_, {{"run", {"/bin/true"}}, {"epochs", 2}});
  ASSERT_EQ(got.status, 200) << got.body;
  EXPECT_FALSE(got.json["placed"].get<bool>());  // everything is reserved
  EXPECT_EQ(ask("GET", "/api/v1/jobs", admin_).json["jobs"].size(), 0U);
}

TEST_F(ApiTest, APlanNamesNoJobOfAnotherTenant) {
  ASSERT_TRUE(controller_->use_policy(admin_caller_, "elastic-dp", {}).ok());
  for (int i = 0; i < 4; ++i) submit(bob_, "secret-of-bob");
  ASSERT_TRUE(controller_->release(admin_caller_, 1).ok());
  // Their supervisor is a program that exits immediately. They keep their devices while it is
  // restarted.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (ask("GET", "/api/v1/cluster", admin_).json["allocated"] != 4) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Another tenant would get its share of the devices.
  const json wish = {{"run", {"/bin/true"}}, {"devices", "1..4"}};
  const Got hers = ask("POST", "/api/v1/plan", alice_, wish);
  ASSERT_EQ(hers.status, 200) << hers.body;
  EXPECT_TRUE(hers.json["changes"].empty()) << hers.body;
  EXPECT_EQ(hers.json["others"], (json{{"changed", 2}, {"devices", -2}})) << hers.body;
  for (const char* hidden : {"j1", "j2", "j3", "j4", "bob"}) {
    EXPECT_EQ(hers.body.find(hidden), std::string::npos) << hers.body;
  }
  // An administrator sees which jobs change.
  const Got all = ask("POST", "/api/v1/plan", admin_, wish);
  EXPECT_EQ(all.json["changes"].size(), 2U) << all.body;
  EXPECT_EQ(all.json["others"]["changed"], 0) << all.body;
}

TEST_F(ApiTest, EventsByNumber) {
  const std::int64_t number = submit(alice_);
  submit(bob_);
  const Got all = ask("GET", "/api/v1/events", admin_);
  ASSERT_GE(all.json["events"].size(), 2U);
  const std::int64_t first = all.json["events"][0]["seq"];
  EXPECT_EQ(
      ask("GET", "/api/v1/events?after=" + std::to_string(first), admin_).json["events"][0]["seq"],
      first + 1);
  EXPECT_EQ(ask("GET", "/api/v1/events?limit=1", admin_).json["next"], first);
  const Got seen = ask("GET", "/api/v1/events", alice_);
  for (const json& event : seen.json["events"]) {
    EXPECT_EQ(event["tenant"], "alice");
  }
  const Got own = ask("GET", "/api/v1/jobs/" + std::to_string(number) + "/events", alice_);
  ASSERT_FALSE(own.json["events"].empty());
  EXPECT_EQ(own.json["events"][0]["job"], number);
}

TEST_F(ApiTest, ReservationsTenantsPolicies) {
  const json list = ask("GET", "/api/v1/reservations", alice_).json["reservations"];
  ASSERT_EQ(list.size(), 1U);
  const std::string path = "/api/v1/reservations/" + compact_json(list[0]["number"]);
  EXPECT_EQ(ask("POST", "/api/v1/reservations", admin_, {{"devices", 1}, {"seconds", 5}}).status,
            400);  // all devices are reserved
  EXPECT_EQ(ask("DELETE", path, admin_).status, 204);
  EXPECT_EQ(ask("DELETE", path, admin_).status, 404);
  const Got made = ask("POST", "/api/v1/reservations", admin_, {{"devices", 4}, {"seconds", 3600}});
  EXPECT_EQ(made.status, 201) << made.body;

  EXPECT_EQ(ask("GET", "/api/v1/tenants", alice_).json["tenants"].size(), 1U);
  const Got carol = ask("PUT", "/api/v1/tenants/carol", admin_, {{"weight", 2.5}, {"quota", 2}});
  const std::string token = carol.json["token"];
  EXPECT_EQ(ask("GET", "/api/v1/jobs", token).status, 200);
  EXPECT_FALSE(ask("PUT", "/api/v1/tenants/carol", admin_, {{"weight", 1}}).json.contains("token"));
  const Got renewed = ask("PUT", "/api/v1/tenants/carol", admin_, {{"new_token", true}});
  EXPECT_EQ(ask("GET", "/api/v1/jobs", token).status, 401);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", renewed.json["token"]).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/tenants", admin_).body.find("sha256"), std::string::npos);

  EXPECT_EQ(ask("PUT", "/api/v1/policy", admin_, {{"name", "fifo"}}).json["active"], "fifo");
  EXPECT_EQ(ask("GET", "/api/v1/policies", alice_).json["active"], "fifo");
  const Got unknown = ask("PUT", "/api/v1/policy", admin_, {{"name", "fifa"}});
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/cluster", alice_).json["policy"], "fifo");
}

TEST_F(ApiTest, TheListSaysWhatTheJobSays) {
  for (const char* name : {"plain", "with \"quotes\" \\ and umläut"}) {
    const control::JobDocument document{.name = name, .run = {"/bin/true"}};
    control::JobRecord job{.number = 7, .document = document, .tenant = "alice"};
    job.submitted_at = 1.7e9 + 0.123;
    job.device_s = 1e-9;
    job.progress = {{"step", 3}, {"loss", 0.25}};
    const json listed = parse_json_or_throw(job_list_text(std::vector{job}, 1000));
    json whole = parse_json_or_throw(job_text(job));
    for (const char* left_out : {"document", "errors", "facts", "key", "result", "uid"})
      whole.erase(left_out);
    EXPECT_EQ(listed["jobs"][0], whole);
    EXPECT_TRUE(listed["next"].is_null());
  }
}

TEST_F(ApiTest, RefusesWhatItDoesNotKnow) {
  const auto code = [&](const Got& got) { return got.json["error"]["code"].get<std::string>(); };
  EXPECT_EQ(ask("GET", "/nothing", "").status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/job", admin_).status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/", admin_).status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/999", admin_).status, 404);
  const Got method = ask_raw("DELETE", "/api/v1/jobs", admin_, "", {});
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.find("Allow")->second, "GET, POST");
  EXPECT_EQ(method.json["error"]["message"], "allowed methods: GET, POST");
  const Got parameter = ask("GET", "/api/v1/jobs?activ=true", admin_);
  EXPECT_EQ(parameter.status, 400);
  EXPECT_EQ(code(parameter), "unknown-parameter");
  EXPECT_NE(parameter.body.find("did you mean 'active'"), std::string::npos);
  EXPECT_EQ(ask("GET", "/api/v1/jobs?limit=0", admin_).status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/jobs?limit=x", admin_).status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/jobs?limit=1&limit=2", admin_).status, 400);
  const Got field = ask("POST", "/api/v1/jobs", admin_, {{"run", {"a"}}, {"devices", "4..2"}});
  EXPECT_EQ(field.status, 400);
  EXPECT_EQ(field.json["error"]["path"], "/devices");
  EXPECT_EQ(ask("POST", "/api/v1/reservations", admin_, {{"devices", "1"}}).status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/reservations", admin_, {{"devices", 1}, {"seconds", 1}, {"x", 1}})
                .json["error"]["path"],
            "/x");
  EXPECT_EQ(ask_raw("POST", "/api/v1/jobs", admin_, "{", {}).status, 400);
  EXPECT_EQ(ask_raw("POST", "/api/v1/jobs", admin_, std::string(100, '['), {}).status, 400);
  EXPECT_EQ(ask_raw("POST", "/api/v1/jobs", admin_, "a=b", {{"Content-Type", "text/plain"}}).status,
            400);
  EXPECT_EQ(ask_raw("POST", "/api/v1/jobs", admin_, "{\"run\":[\"\xff\"]}", {}).status, 400);
}

TEST_F(ApiTest, HeadIsGetWithoutTheBody) {
  const Got got = ask_raw("HEAD", "/healthz", "", "", {});
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "");
}

}  // namespace
}  // namespace rubato::api
