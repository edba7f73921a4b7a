// Uploads: only what is missing travels, nothing half is ever there, and nothing leaves its folder.
#include "control/uploads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "control/as_user.h"
#include "control/temporary_folder.h"
#include "control/upload_unpack.h"

namespace rubato::control {
namespace {

constexpr const char* kStore = "admin";

class UploadsTest : public ::testing::Test {
 protected:
  void SetUp() override { make({}); }
  void make(const UploadLimits& limits) {
    uploads_ = std::make_shared<Uploads>(root_ / "uploads", limits);
  }
  std::string send(const std::string& text, const std::string& store = kStore) {
    const UploadPiece piece{sha256_hex(text), static_cast<std::int64_t>(text.size())};
    const Result<bool> done = uploads_->put(store, piece, "a1", 0, text);
    EXPECT_TRUE(done.ok() && *done) << (done.ok() ? "incomplete" : done.error().message);
    return piece.sha256;
  }
  std::size_t missing(const std::vector<std::string>& texts, const std::string& store = kStore) {
    std::vector<UploadPiece> pieces;
    for (const std::string& text : texts) {
      pieces.push_back({sha256_hex(text), static_cast<std::int64_t>(text.size())});
    }
    const auto found = uploads_->missing(store, pieces);
    EXPECT_TRUE(found.ok()) << found.error().message;
    return found.ok() ? found->size() : 999;
  }
  std::string send_list(const UploadManifest& manifest) { return send(manifest_text(manifest)); }
  static UploadEntry file(const std::string& path, const std::string& text, bool program = false) {
    return {.path = path,
            .sha256 = sha256_hex(text),
            .size = static_cast<std::int64_t>(text.size()),
            .executable = program};
  }
  Status unpack(const std::string& digest) {
    std::filesystem::create_directories(root_ / "7");
    const std::atomic<bool> stop = false;
    return unpack_upload(*uploads_, {kStore, digest}, root_ / "7", stop);
  }
  std::string text_of(const std::string& name) {
    const auto text = read_file(root_ / ("7/work/" + name));
    return text.ok() ? *text : text.error().message;
  }
  void age(const std::string& digest, double days) {
    const std::string path = root_ / ("uploads/" + std::string(kStore) + "/files/" + digest);
    timespec times[2] = {{.tv_sec = ::time(nullptr) - static_cast<time_t>(days * 86'400)}, {}};
    times[1] = times[0];
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }
  TemporaryFolder root_;
  std::shared_ptr<Uploads> uploads_;
};

TEST_F(UploadsTest, OnlyWhatIsMissingTravels) {
  EXPECT_EQ(missing({"a", "b", "a"}), 2U);
  send("a");
  EXPECT_EQ(missing({"a", "b"}), 1U);
  EXPECT_EQ(missing({"a", "b"}, "other"), 2U) << "another submitter learns nothing";
}

TEST_F(UploadsTest, AFileComesInParts) {
  const UploadPiece piece{sha256_hex("abcdef"), 6};
  EXPECT_EQ(*uploads_->put(kStore, piece, "1", 0, "abc"), false);
  EXPECT_EQ(missing({"abcdef"}), 1U) << "what is half there is not there";
  EXPECT_EQ(*uploads_->put(kStore, piece, "2", 0, "ab"), false) << "somebody else";
  EXPECT_EQ(uploads_->put(kStore, piece, "1", 4, "ef").error().code, ErrorCode::kRefused);
  EXPECT_EQ(*uploads_->put(kStore, piece, "1", 3, "def"), true);
  EXPECT_EQ(missing({"abcdef"}), 0U);
  EXPECT_EQ(*uploads_->put(kStore, {sha256_hex(""), 0}, "1", 0, ""), true);
}

TEST_F(UploadsTest, WrongBytesAreRefused) {
  const UploadPiece piece{sha256_hex("right"), 5};
  EXPECT_EQ(uploads_->put(kStore, piece, "1", 0, "wrong").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(missing({"right"}), 1U);
  EXPECT_FALSE(uploads_->put(kStore, piece, "1", 0, "too long").ok());
  EXPECT_FALSE(uploads_->put(kStore, piece, "1", -1, "x").ok());
  EXPECT_FALSE(uploads_->put(kStore, {"../../x", 1}, "1", 0, "x").ok());
  EXPECT_FALSE(uploads_->put(kStore, piece, "../x", 0, "right").ok());
}

TEST_F(UploadsTest, AreBounded) {
  make({.upload_bytes = 100, .store_bytes = 150});
  EXPECT_EQ(uploads_->missing(kStore, {{sha256_hex("x"), 101}}).error().code, ErrorCode::kRefused);
  send(std::string(80, 'a'));
  EXPECT_EQ(uploads_->missing(kStore, {{sha256_hex("x"), 71}}).error().code, ErrorCode::kRefused);
  EXPECT_EQ(missing({std::string(70, 'b')}), 1U);
  send(std::string(70, 'b'));
  const std::string more(10, 'c');
  EXPECT_FALSE(uploads_->put(kStore, {sha256_hex(more), 10}, "1", 0, more).ok());
  EXPECT_EQ(missing({more}, "other"), 1U) << "each submitter has his own";
  make({.free_bytes = std::int64_t{1} << 60});
  EXPECT_EQ(uploads_->missing(kStore, {{sha256_hex("x"), 1}}).error().code, ErrorCode::kRefused);
}

TEST_F(UploadsTest, AreUnpacked) {
  send("print(1)");
  send("#!/bin/sh\n");
  send("");
  const std::string list = send_list({file("src/train.py", "print(1)"),
                                      file("run.sh", "#!/bin/sh\n", true),
                                      file("deep/er/empty", ""),
                                      {.path = "link", .link = "src/train.py"},
                                      {.path = "deep/up", .link = "../src"}});
  ASSERT_TRUE(uploads_->check(kStore, list).ok());
  const Status done = unpack(list);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(text_of("src/train.py"), "print(1)");
  EXPECT_EQ(text_of("link"), "print(1)");
  EXPECT_EQ(text_of("deep/up/train.py"), "print(1)");
  EXPECT_EQ(access((root_ / "7/work/run.sh").c_str(), X_OK), 0);
  struct stat status {};
  ASSERT_EQ(stat((root_ / "7/work/src/train.py").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_TRUE(is_file(root_ / "7/work/deep/er/empty"));
}

TEST_F(UploadsTest, ADamagedFileIsNoticed) {
  const std::string digest = send("precious");
  const std::string list = send_list({file("a", "precious")});
  std::ofstream(root_ / ("uploads/" + std::string(kStore) + "/files/" + digest)) << "damaged!";
  const Status done = unpack(list);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("damaged"), std::string::npos) << done.error().message;
  EXPECT_FALSE(std::filesystem::exists(root_ / "7/work")) << "nothing half is there";
  EXPECT_EQ(missing({"precious"}), 1U) << "it will be sent again";
  EXPECT_FALSE(uploads_->check(kStore, list).ok());
}

TEST_F(UploadsTest, WhatADeadDaemonLeftIsInNobodysWay) {
  send("x");
  const std::string list = send_list({file("a", "x")});
  std::filesystem::create_directories(root_ / "7/work.new.abc/half");
  ASSERT_TRUE(unpack(list).ok());
  EXPECT_FALSE(std::filesystem::exists(root_ / "7/work.new.abc"));
  EXPECT_EQ(text_of("a"), "x");
}

TEST_F(UploadsTest, ListsThatLeaveTheirFolderAreRefused) {
  const std::vector<UploadManifest> wrong{
      {file("../a", "x")},
      {file("/a", "x")},
      {file("a/../../b", "x")},
      {file("", "x")},
      {file("a", "x"), file("a", "x")},
      {file("a", "x"), file("a/b", "x")},
      {{.path = "a", .link = "/etc"}, file("b", "x")},
      {{.path = "a", .link = ".."}},
      {{.path = "a/b", .link = "../.."}},
      {{.path = "s", .link = "."}, {.path = "t", .link = "s/../.."}},
      {{.path = "a", .link = "b"}, file("a/passwd", "x")},
      {{.path = "a", .sha256 = "../../admin.token", .size = 1}},
      {{.path = "a", .sha256 = sha256_hex("x"), .size = -1}},
  };
  for (const UploadManifest& each : wrong) {
    EXPECT_FALSE(parse_manifest(manifest_text(each)).ok()) << manifest_text(each);
  }
  for (const char* text : {"", "[]", "{}", R"({"version":2,"files":[]})",
                           R"({"version":1,"files":[1]})", R"({"version":1,"files":{"a":1}})"}) {
    EXPECT_FALSE(parse_manifest(text).ok()) << text;
  }
  EXPECT_FALSE(parse_manifest(std::string(100'000, '[')).ok());
  EXPECT_TRUE(parse_manifest(manifest_text({})).ok());
}

TEST_F(UploadsTest, OldOnesAreRemovedUnlessAJobNeedsThem) {
  const std::string needed = send("needed");
  const std::string list = send_list({file("a", "needed")});
  const std::string old = send("old");
  const std::string fresh = send("fresh");
  for (const std::string& digest : {needed, list, old}) age(digest, 8);
  uploads_->collect({{kStore, list}}, static_cast<double>(::time(nullptr)));
  EXPECT_EQ(missing({"needed", "old", "fresh"}), 1U);
  EXPECT_TRUE(uploads_->check(kStore, list).ok());
  for (const std::string& digest : {needed, list}) age(digest, 8);
  EXPECT_TRUE(uploads_->check(kStore, list).ok());  // as if they had just come
  uploads_->collect({}, static_cast<double>(::time(nullptr)));
  EXPECT_EQ(missing({"needed"}), 0U);
  for (const std::string& digest : {needed, list}) age(digest, 8);
  uploads_->collect({}, static_cast<double>(::time(nullptr)));
  EXPECT_EQ(missing({"needed"}), 1U);
  // Parts go after a day.
  ASSERT_TRUE(uploads_->put(kStore, {sha256_hex("abcdef"), 6}, "1", 0, "abc").ok());
  uploads_->collect({}, static_cast<double>(::time(nullptr)) + 2 * 86'400);
  EXPECT_TRUE(std::filesystem::is_empty(root_ / ("uploads/" + std::string(kStore) + "/parts")));
}

TEST_F(UploadsTest, AreUnpackedWithTheRightsOfTheJobsUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kUser = 64'001;
  send("x");
  const std::string list = send_list({file("src/a", "x"), {.path = "l", .link = "src"}});
  std::filesystem::create_directories(root_ / "7");
  ASSERT_EQ(chmod(root_.path().c_str(), 0711), 0);
  ASSERT_EQ(chown((root_ / "7").c_str(), kUser, kUser), 0);
  ASSERT_EQ(chmod((root_ / "7").c_str(), 0700), 0);
  UploadUnpack unpack;
  std::optional<Status> done;
  {
    const AsUser rights(kUser, kUser, {kUser});  // as the executor calls it
    while (!done) done = unpack.look(uploads_, std::string(kStore) + "/" + list, root_ / "7");
  }
  ASSERT_TRUE(done->ok()) << done->error().message;
  for (const char* name : {"work", "work/src", "work/src/a", "work/l"}) {
    struct stat status {};
    ASSERT_EQ(lstat((root_ / (std::string("7/") + name)).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_uid, kUser) << name;
  }
  // The store itself is out of reach.
  const AsUser rights(kUser, kUser, {kUser});
  EXPECT_FALSE(read_file(root_ / ("uploads/admin/files/" + list)).ok());
}

}  // namespace
}  // namespace rubato::control
