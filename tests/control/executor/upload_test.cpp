// Jobs that bring their working folder and leave outputs, as their own unix user and as the
// daemon's.
#include <sys/stat.h>

#include "base/sha256.h"
#include "control/executor/executor_fixture.h"
#include "control/result_files.h"
#include "control/upload_manifest.h"

namespace rubato::control {
namespace {

constexpr uid_t kUploader = 64'003;

class UploadedJobs : public ExecutorTest {
 protected:
  void SetUp() override {
    ExecutorTest::SetUp();
    ASSERT_EQ(chmod(root_.c_str(), 0711), 0);
    options_.uploads = std::make_shared<Uploads>(root_ + "/uploads", UploadLimits{});
  }
  void send(const std::string& text) {
    const UploadPiece piece{sha256_hex(text), static_cast<std::int64_t>(text.size())};
    const auto done = options_.uploads->put("admin", piece, "1", 0, text);
    ASSERT_TRUE(done.ok() && *done);
  }
  // Uploads a script that is the whole folder.
  JobDocument uploaded(const std::string& script) {
    send(script);
    const std::string list = manifest_text({{.path = "bin/run",
                                             .sha256 = sha256_hex(script),
                                             .size = static_cast<std::int64_t>(script.size()),
                                             .executable = true}});
    send(list);
    JobDocument document;
    document.name = "uploaded";
    document.program = elastic::ProgramKind::kOpaque;
    document.mode = ElasticMode::kRigid;
    document.min_devices = document.max_devices = 1;
    document.run = {"./bin/run"};
    document.upload = "admin/" + sha256_hex(list);
    return document;
  }
  std::string output(JobNumber job, const std::string& name) const {
    const std::string folder = executor_->job_folder(job);
    const AsUser rights = AsUser::owner_of(folder);
    const auto file = open_result({folder, "outputs"}, name);
    return file.ok() ? file->read(0, 1000) : file.error().message;
  }
  bool over(JobNumber job) const { return finished(job) || was_told(job, Notice::Kind::kFailed); }
};

TEST_F(UploadedJobs, RunInTheirFolder) {
  start_executor();
  want(1, uploaded("#!/bin/sh\npwd >$RUBATO_OUTPUT_DIR/where\ncat $0 >$RUBATO_OUTPUT_DIR/me\n"), 1);
  ASSERT_TRUE(until([&] { return over(1); }));
  EXPECT_TRUE(finished(1));
  EXPECT_EQ(output(1, "where"), executor_->job_folder(1) + "/work\n");
  EXPECT_TRUE(output(1, "me").starts_with("#!/bin/sh\npwd"));
}

TEST_F(UploadedJobs, RunAsTheirUserWithTheirFilesAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  options_.isolation.users = true;
  start_executor();
  JobDocument document = uploaded(
      "#!/bin/sh\nid -u >$RUBATO_OUTPUT_DIR/who\nstat -c %u . bin/run $RUBATO_OUTPUT_DIR "
      ">$RUBATO_OUTPUT_DIR/owners\ncat $STATE/uploads/*/files/* >$RUBATO_OUTPUT_DIR/stolen 2>&1\n"
      "echo \"# changed\" >>bin/run\n");
  document.user = std::to_string(kUploader);
  document.env["STATE"] = root_;
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return over(1); }));
  EXPECT_TRUE(finished(1));
  EXPECT_EQ(output(1, "who"), "64003\n");
  EXPECT_EQ(output(1, "owners"), "64003\n64003\n64003\n");
  EXPECT_EQ(output(1, "stolen").find("#!/bin/sh"), std::string::npos) << output(1, "stolen");
  // Another job gets the files as they came.
  want(2, document, 1);
  ASSERT_TRUE(until([&] { return over(2); }));
  EXPECT_TRUE(finished(2));
  const auto script = read_file(executor_->job_folder(2) + "/work/bin/run");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->find("# changed\n# changed"), std::string::npos);
}

TEST_F(UploadedJobs, FailWithTheReasonIfTheirFilesAreGone) {
  start_executor();
  JobDocument document = uploaded("#!/bin/sh\ntrue\n");
  options_.uploads->discard("admin", sha256_hex("#!/bin/sh\ntrue\n"));
  want(1, document, 1);
  ASSERT_TRUE(until([&] { return over(1); }));
  const std::vector<Notice> failed = told(1, Notice::Kind::kFailed);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_NE(failed[0].body.value("message", "").find("bin/run is not here"), std::string::npos)
      << failed[0].body.dump();
}

}  // namespace
}  // namespace rubato::control
