// Lists of some jobs, arrays and the cancellation of several, over a real socket.
#include "api/api_fixture.h"

namespace rubato::api {
namespace {

using nlohmann::json;

class SelectTest : public ApiTest {
 protected:
  json submit(const std::string& token, json fields) {
    fields["run"] = "/bin/true";
    const Got got = ask("POST", "/api/v1/jobs", token, fields);
    EXPECT_EQ(got.status, 201) << got.body;
    return got.json;
  }
  // The names of a list.
  std::string names(const std::string& query, const std::string& token) {
    const Got got = ask("GET", "/api/v1/jobs?" + query, token);
    EXPECT_EQ(got.status, 200) << got.body;
    std::vector<std::string> all;
    for (const json& job : got.json.value("jobs", json::array())) all.push_back(job["name"]);
    return join(all, " ");
  }
};

TEST_F(SelectTest, ListsAreFiltered) {
  submit(alice_, {{"name", "a-1"}, {"labels", {{"team", "vision"}, {"run", 7}}}});
  submit(alice_, {{"name", "a-2"}, {"labels", {{"team", "audio"}}}});
  submit(bob_, {{"name", "b-1"}, {"labels", {{"team", "vision"}}}});
  EXPECT_EQ(names("labels=team%3Dvision", admin_), "a-1 b-1");
  EXPECT_EQ(names("labels=team%3Dvision", alice_), "a-1");
  EXPECT_EQ(names("labels=team%3Dvision%2Crun%3D7", admin_), "a-1");
  EXPECT_EQ(names("name=a-%2A", admin_), "a-1 a-2");
  EXPECT_EQ(names("name=%2A-1&tenant=bob", admin_), "b-1");
  EXPECT_EQ(names("phases=queued%2Crunning", alice_), "a-1 a-2");
  EXPECT_EQ(names("phases=finished", alice_), "");
  EXPECT_EQ(names("before=1", alice_), "");
  EXPECT_EQ(names("since=1&limit=1", alice_), "a-1");
  EXPECT_EQ(names("user=nobody", admin_), "");
  EXPECT_EQ(ask("GET", "/api/v1/jobs?labels=team", alice_).status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/jobs?phases=done", alice_).status, 400);
  const Got job = ask("GET", "/api/v1/jobs/a-1", alice_);
  EXPECT_EQ(job.json["labels"], (json{{"team", "vision"}, {"run", "7"}}));
  EXPECT_EQ(job.json["array"], nullptr);
}

TEST_F(SelectTest, ArraysAreOneSubmissionAndManyJobs) {
  const json first = submit(alice_, {{"name", "sweep"}, {"array", "0-3%2"}});
  EXPECT_EQ(first["name"], "sweep[0]");
  EXPECT_EQ(first["array"]["size"], 4);
  EXPECT_EQ(first["array"]["at_once"], 2);
  EXPECT_EQ(first["document"]["env"]["RUBATO_ARRAY_SIZE"], "4");
  EXPECT_EQ(names("job=sweep", alice_), "sweep[0] sweep[1] sweep[2] sweep[3]");
  EXPECT_EQ(names("job=j1%5B%5D", alice_), "sweep[0] sweep[1] sweep[2] sweep[3]");
  EXPECT_EQ(names("job=j1", alice_), "sweep[0]");
  EXPECT_EQ(names("array=sweep&limit=2&after=1", alice_), "sweep[1] sweep[2]");
  EXPECT_EQ(ask("GET", "/api/v1/jobs?job=sweep", bob_).status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/sweep", alice_).status, 409);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/sweep%5B2%5D", alice_).json["id"], "j3");
  EXPECT_EQ(
      ask("POST", "/api/v1/jobs", alice_, json{{"run", "/bin/true"}, {"array", "0-1000"}}).status,
      400);
}

TEST_F(SelectTest, SeveralJobsAreCancelledAtOnce) {
  submit(alice_, {{"name", "keep"}});
  submit(alice_, {{"name", "sweep"}, {"array", "0-2"}, {"labels", {{"run", 1}}}});
  submit(alice_, {{"name", "next"}, {"after", "sweep"}});
  submit(bob_, {{"name", "other"}, {"labels", {{"run", 1}}}});
  EXPECT_EQ(ask("GET", "/api/v1/jobs/next", alice_).json["waits_for"],
            (json{{"j2", "finished"}, {"j3", "finished"}, {"j4", "finished"}}));
  EXPECT_EQ(ask("POST", "/api/v1/cancel", alice_, json::object()).status, 400)
      << "not all by mistake";
  EXPECT_EQ(ask("POST", "/api/v1/cancel", alice_, json{{"labels", {{"run", 2}}}}).json["jobs"],
            json::array());
  EXPECT_EQ(ask("POST", "/api/v1/cancel", alice_, json{{"labels", {{"run", 1}}}}).json["jobs"],
            (json{"j2", "j3", "j4"}));
  EXPECT_EQ(names("active=true", admin_), "keep other") << "and what waited for them";
  EXPECT_EQ(ask("GET", "/api/v1/jobs/next", alice_).json["message"],
            "j2 was cancelled, and this job was to start after j2 had finished");
}

}  // namespace
}  // namespace rubato::api
