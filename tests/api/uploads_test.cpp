// Uploads over HTTP: whose they are, and what a submission that names one needs.
#include "api/api_fixture.h"
#include "base/sha256.h"
#include "control/upload_manifest.h"

namespace rubato::api {
namespace {

using nlohmann::json;

class UploadRoutes : public ApiTest {
 protected:
  std::vector<std::string> missing(const std::string& token,
                                   const std::vector<std::string>& texts) {
    json files = json::array();
    for (const std::string& text : texts) {
      files.push_back({{"sha256", sha256_hex(text)}, {"size", text.size()}});
    }
    const Got got = ask("POST", "/api/v1/uploads/missing", token, {{"files", files}});
    EXPECT_EQ(got.status, 200) << got.body;
    return got.status == 200 ? got.json["missing"].get<std::vector<std::string>>()
                             : std::vector<std::string>{"?"};
  }
  Got put(const std::string& token, const std::string& digest, std::size_t size, std::size_t offset,
          const std::string& bytes) {
    const std::string path = "/api/v1/uploads/" + digest + "?size=" + std::to_string(size) +
                             "&offset=" + std::to_string(offset) + "&id=ab";
    Got got = ask_raw("PUT", path, token, bytes, {{"Content-Type", "application/octet-stream"}});
    EXPECT_EQ(undeclared(openapi(), "PUT", path, got), "") << got.body;
    return got;
  }
  std::string send(const std::string& token, const std::string& text) {
    const Got got = put(token, sha256_hex(text), text.size(), 0, text);
    EXPECT_EQ(got.json["complete"], true) << got.body;
    return sha256_hex(text);
  }
  Got submit_with(const std::string& token, const std::string& upload, const json& run) {
    return ask("POST", "/api/v1/jobs", token, {{"run", run}, {"upload", upload}});
  }
};

TEST_F(UploadRoutes, KeepFilesOfEachTenant) {
  const std::string binary("\x00\xff\n\x80", 4);
  EXPECT_EQ(missing(alice_, {binary, "b"}).size(), 2U);
  send(alice_, binary);
  EXPECT_EQ(missing(alice_, {binary, "b"}), std::vector{sha256_hex("b")});
  EXPECT_EQ(missing(bob_, {binary}).size(), 1U);
  EXPECT_EQ(put(alice_, sha256_hex("abc"), 3, 0, "ab").json["complete"], false);
  EXPECT_EQ(put(alice_, sha256_hex("abc"), 3, 1, "c").status, 409);
  EXPECT_EQ(put(alice_, sha256_hex("abc"), 3, 2, "c").json["complete"], true);
  EXPECT_EQ(put(alice_, sha256_hex("abc"), 3, 0, "abd").status, 400);
  EXPECT_EQ(put(alice_, "nothing", 3, 0, "abc").status, 404);
  EXPECT_EQ(put("", sha256_hex("abc"), 3, 0, "abc").status, 401);
  const Got json_body =
      ask("PUT", "/api/v1/uploads/" + sha256_hex("abc") + "?size=2&id=ab", alice_, json::object());
  EXPECT_EQ(json_body.status, 400);
}

TEST_F(UploadRoutes, AJobNeedsAllFilesOfItsUpload) {
  const control::UploadManifest manifest{
      {.path = "train.sh", .sha256 = sha256_hex("#!/bin/sh\n"), .size = 10, .executable = true},
      {.path = "data", .sha256 = sha256_hex("data"), .size = 4}};
  const std::string list = control::manifest_text(manifest);
  EXPECT_EQ(submit_with(alice_, sha256_hex(list), {"./train.sh"}).status, 409) << "nothing is here";
  send(alice_, list);
  send(alice_, "data");
  const Got missing_one = submit_with(alice_, sha256_hex(list), {"./train.sh"});
  EXPECT_EQ(missing_one.status, 409);
  EXPECT_NE(missing_one.body.find("train.sh is not here"), std::string::npos) << missing_one.body;
  send(alice_, "#!/bin/sh\n");
  const Got job = submit_with(alice_, sha256_hex(list), {"./train.sh"});
  ASSERT_EQ(job.status, 201) << job.body;
  // Another tenant that knows the digest has nothing of it, nor by naming the store.
  EXPECT_EQ(submit_with(bob_, sha256_hex(list), {"./train.sh"}).status, 409);
  const std::string stored = job.json["document"]["upload"];
  EXPECT_NE(stored, sha256_hex(list));
  EXPECT_EQ(submit_with(bob_, stored, {"./train.sh"}).status, 409);
  EXPECT_EQ(submit_with(alice_, sha256_hex(list), {"./nothing"}).status, 400);
  EXPECT_EQ(submit_with(alice_, sha256_hex(list), {"./data"}).status, 400) << "not executable";
  EXPECT_EQ(submit_with(alice_, sha256_hex(list), {"sh", "train.sh"}).status, 201);
  EXPECT_EQ(submit_with(alice_, "../../admin.token", {"sh"}).status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/jobs", alice_,
                {{"run", {"sh"}}, {"upload", sha256_hex(list)}, {"dir", "/tmp"}})
                .status,
            400);
}

}  // namespace
}  // namespace rubato::api
