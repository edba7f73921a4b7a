// The files of a job over HTTP: lists, contents, ranges, whose they are, and limits.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "api/api_fixture.h"
#include "api/raw_socket.h"

namespace rubato::api {
namespace {

using nlohmann::json;

class FilesTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    number_ = submit(alice_);
    job_ = folder_ + "/jobs/" + std::to_string(number_);
    const auto record = controller_->job(admin_caller_, number_);
    ASSERT_TRUE(record.ok());
    std::filesystem::create_directories(job_ + "/outputs/deep");
    std::filesystem::create_directories(job_ + "/logs");
    write("owner", "store " + record->uid + "\n");
    write("outputs/a.txt", "0123456789");
    write("outputs/empty", "");
    write("outputs/deep/b.txt", "b");
    write("secret", "hidden");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(job_ + "/" + name, std::ios::binary) << text;
  }
  std::string path(const std::string& what, const std::string& file) const {
    return "/api/v1/jobs/" + std::to_string(number_) + "/" + what + "?path=" + file;
  }
  Got get(const std::string& file, httplib::Headers headers = {}) {
    return ask("GET", path("file", file), alice_, nullptr, std::move(headers));
  }
  std::string header(const Got& got, const std::string& name) const {
    const auto found = got.headers.find(name);
    return found == got.headers.end() ? "" : found->second;
  }
  std::int64_t number_ = 0;
  std::string job_;
};

TEST_F(FilesTest, AreListedAndRead) {
  const Got top = ask("GET", path("files", ""), alice_);
  ASSERT_EQ(top.status, 200) << top.body;
  EXPECT_EQ(top.json["entries"].size(), 2U) << top.body;  // logs, outputs
  const Got list = ask("GET", path("files", "outputs"), alice_);
  ASSERT_EQ(list.status, 200) << list.body;
  EXPECT_EQ(list.json["entries"][0]["name"], "a.txt");
  EXPECT_EQ(list.json["entries"][0]["size"], 10);
  EXPECT_EQ(list.json["entries"][1]["kind"], "folder");
  EXPECT_EQ(ask("GET", path("files", "outputs") + "&limit=1", alice_).json["next"], "a.txt");
  EXPECT_EQ(ask("GET", path("files", "outputs") + "&after=deep", alice_).json["entries"].size(),
            1U);
  const Got file = get("outputs%2Fdeep%2Fb.txt");
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(file.body, "b");
  EXPECT_EQ(get("outputs/empty").body, "");
  EXPECT_EQ(header(get("outputs/empty"), "Content-Length"), "0");
  const Got head = ask_raw("HEAD", path("file", "a.txt"), alice_, "", {});
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(header(head, "Content-Length"), "10");
}

TEST_F(FilesTest, APartIsRead) {
  struct Case {
    const char* range;
    int status;
    const char* body;
  };
  for (const Case& each :
       {Case{"bytes=3-", 206, "3456789"}, Case{"bytes=3-5", 206, "345"},
        Case{"bytes=-2", 206, "89"}, Case{"bytes=8-100", 206, "89"},
        Case{"bytes=-100", 200, "0123456789"}, Case{"bytes=0-", 200, "0123456789"},
        Case{"bytes=1-2,4-5", 200, "0123456789"}, Case{"lines=1-2", 200, "0123456789"},
        Case{"bytes=x-", 200, "0123456789"}, Case{"bytes=5-3", 200, "0123456789"}}) {
    const Got got = get("a.txt", {{"Range", each.range}});
    EXPECT_EQ(got.status, each.status) << each.range;
    EXPECT_EQ(got.body, each.body) << each.range;
  }
  EXPECT_EQ(header(get("a.txt", {{"Range", "bytes=3-5"}}), "Content-Range"), "bytes 3-5/10");
  for (const char* range : {"bytes=10-", "bytes=99999999999-", "bytes=-0"}) {
    const Got none = get("a.txt", {{"Range", range}});
    EXPECT_EQ(none.status, 416) << range;
    EXPECT_EQ(header(none, "Content-Range"), "bytes */10");
  }
  // A Range means nothing to other routes.
  EXPECT_EQ(ask("GET", path("files", ""), alice_, nullptr, {{"Range", "bytes=0-3"}}).status, 200);
}

TEST_F(FilesTest, AFileThatChangedComesFromItsBeginning) {
  const std::string etag = header(get("a.txt"), "ETag");
  EXPECT_EQ(get("a.txt", {{"Range", "bytes=5-"}, {"If-Range", etag}}).body, "56789");
  write("outputs/a.txt", "another text");
  const Got changed = get("a.txt", {{"Range", "bytes=5-"}, {"If-Range", etag}});
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body, "another text");
}

TEST_F(FilesTest, BelongToTheirTenant) {
  for (const char* what : {"file", "files"}) {
    EXPECT_EQ(ask("GET", path(what, "a.txt"), bob_).status, 404);
    EXPECT_EQ(ask("GET", path(what, "a.txt"), "").status, 401);
    EXPECT_EQ(ask("GET", path(what, "a.txt"), admin_).status, 200);
  }
}

TEST_F(FilesTest, NothingElseIsServed) {
  symlink("/etc/passwd", (job_ + "/outputs/link").c_str());
  for (const char* file : {"secret", "owner", "nothing", "outputs/nothing"}) {
    EXPECT_EQ(get(file).status, 404) << file;
  }
  for (const char* file : {"", "..%2Fsecret", "outputs/../secret", "/etc/passwd", "outputs", "link",
                           "a.txt%00", "outputs/../../../admin.token"}) {
    const Got got = get(file);
    EXPECT_EQ(got.status, 400) << file;
    EXPECT_EQ(got.body.find(folder_), std::string::npos) << got.body;
  }
  // A folder of another history belongs to nobody here.
  write("owner", "store other\n");
  EXPECT_EQ(get("a.txt").status, 404);
}

TEST_F(FilesTest, AreReadWithTheRightsOfTheJobsUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kUser = 64'001;
  for (const char* name : {"", "/outputs", "/outputs/a.txt", "/owner"}) {
    ASSERT_EQ(chown((job_ + name).c_str(), kUser, kUser), 0);
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
  ASSERT_EQ(chmod((folder_ + "/jobs").c_str(), 0711), 0);
  ASSERT_EQ(chmod(job_.c_str(), 0700), 0);
  EXPECT_EQ(get("a.txt").body, "0123456789");
  // Root's file in the user's folder: the user cannot read it, so neither can the tenant.
  write("outputs/roots", "root's");
  ASSERT_EQ(chmod((job_ + "/outputs/roots").c_str(), 0600), 0);
  EXPECT_EQ(get("roots").status, 400);
  ASSERT_EQ(link((folder_ + "/admin.token").c_str(), (job_ + "/outputs/token").c_str()), 0);
  const Got token = get("token");
  EXPECT_EQ(token.status, 400);
  EXPECT_EQ(token.body.find(admin_), std::string::npos);
}

TEST_F(FilesTest, ABreakingFileBreaksTheStream) {
  ASSERT_EQ(truncate((job_ + "/outputs/a.txt").c_str(), 64 << 20), 0);
  const RawSocket client(server_->port());
  client.send("GET " + path("file", "a.txt") + " HTTP/1.1\r\nAuthorization: Bearer " + alice_ +
              "\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 67108864"), std::string::npos) << head;
  ASSERT_EQ(truncate((job_ + "/outputs/a.txt").c_str(), 10), 0);
  const std::string rest = client.read_to_end();
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_LT(rest.size(), 67'108'864U);
}

TEST_F(FilesTest, AreStreamsWithTheirLimit) {
  start_server({.streams = 2});
  ASSERT_EQ(truncate((job_ + "/outputs/a.txt").c_str(), 1LL << 40), 0);  // sparse
  const RawSocket client(server_->port());
  client.send("GET " + path("file", "a.txt") + " HTTP/1.1\r\nAuthorization: Bearer " + alice_ +
              "\r\n\r\n");
  client.read_until("\r\n\r\n");
  const Got second = get("deep/b.txt");
  EXPECT_EQ(second.status, 503) << "a tenant has half of them";
  EXPECT_EQ(second.json["error"]["code"], "too-many-streams");
  EXPECT_EQ(ask("GET", path("file", "deep/b.txt"), admin_).status, 200);
}

}  // namespace
}  // namespace rubato::api
