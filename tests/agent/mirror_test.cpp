// The copy of a job's folder that the daemon keeps: a mirror of a node against a real daemon's API,
// with the calls of the agent made here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "agent/folder_mirror.h"
#include "api/server.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "control/cluster/cluster_executor.h"
#include "control/controller.h"
#include "control/temporary_folder.h"

namespace rubato::agent {
namespace {

using control::JobNumber;
using control::kMostPartBytes;

constexpr std::int64_t kAll = 1 << 30;
const control::Caller kAdmin{.tenant = "", .admin = true, .address = "test"};

class MirrorTest : public testing::Test {
 protected:
  void SetUp() override {
    control::ControllerOptions options{.folder = folder_.path(), .supervisor = "/bin/false"};
    options.cluster = std::make_shared<control::ClusterOptions>(
        control::ClusterOptions{.folder = folder_.path() + "/jobs"});
    auto controller = control::Controller::start(options);
    ASSERT_TRUE(controller.ok()) << controller.error().message;
    controller_ = std::move(*controller);
    auto server = api::Server::start(*controller_, {});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    join();
    control::JobDocument document;
    document.run = {"/bin/true"};
    const auto job = controller_->submit(kAdmin, document, "");
    ASSERT_TRUE(job.ok()) << job.error().message;
    job_ = job->number;
    ASSERT_TRUE(reaches_the_node());
    std::filesystem::create_directories(here("checkpoints"));
    mirror_.emplace(job_, folder_.path() + "/node", MirrorOptions{.outputs = "outputs"});
  }
  void TearDown() override {
    mirror_.reset();
    link_.reset();
    server_.reset();
    controller_.reset();
  }

  void join() {
    const auto join_token = read_file(folder_.path() + "/join.token");
    ASSERT_TRUE(join_token.ok());
    link_ = std::make_unique<DaemonLink>(DaemonAddress{.url = server_->url()}, "n1", "token");
    DaemonLink joining(DaemonAddress{.url = server_->url()}, "n1", std::string(trim(*join_token)));
    control::NodeReport report = this->report();
    report.token_sha256 = sha256_hex("token");
    const auto orders = joining.sync(report);
    ASSERT_TRUE(orders.ok()) << orders.error().message;
  }
  static control::NodeReport report() {
    return {.node = {.name = "n1", .device_type = "cpu", .devices = 1}, .start = 1};
  }
  bool reaches_the_node() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      const auto orders = link_->sync(report());
      if (orders.ok() && !orders->jobs.empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  std::string here(const std::string& path) const { return folder_.path() + "/node/" + path; }
  std::string there(const std::string& path) const {
    return fmt::format("{}/jobs/{}/{}", folder_.path(), job_, path);
  }
  static std::string checkpoint(int number) {
    return fmt::format("checkpoints/checkpoint-{:012}.rubato", number);
  }
  // A file of parts that have one letter each.
  void write(const std::string& path, const std::string& letters) const {
    std::string text;
    for (const char letter : letters) text.append(kMostPartBytes, letter);
    ASSERT_TRUE(write_file(here(path), text).ok());
  }
  // The first letter of each part of a file in the copy.
  std::string copied(const std::string& path) const {
    const auto text = read_file(there(path));
    std::string letters;
    for (std::size_t at = 0; text.ok() && at < text->size(); at += kMostPartBytes) {
      letters += (*text)[at];
    }
    return letters;
  }
  std::string send() {
    const auto sent = mirror_->send(*link_, kAll);
    return sent.ok() ? (*sent ? "all" : "a part") : sent.error().message;
  }

  TemporaryFolder folder_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<api::Server> server_;
  std::unique_ptr<DaemonLink> link_;
  JobNumber job_ = 0;
  std::optional<FolderMirror> mirror_;
};

// What the copy has of the first checkpoint is altered, so that it shows where the second came
// from.
TEST_F(MirrorTest, PartsThatACheckpointHasInCommonWithTheLastAreNotSentAgain) {
  write(checkpoint(1), "abc");
  ASSERT_EQ(send(), "all");
  ASSERT_EQ(copied(checkpoint(1)), "abc");
  ASSERT_TRUE(write_file(there(checkpoint(1)), std::string(3 * kMostPartBytes, 'z')).ok());
  write(checkpoint(2), "aBc");
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(copied(checkpoint(2)), "zBz");
  // A longer one, and one after it: each is compared with the newest.
  write(checkpoint(3), "aBcd");
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(copied(checkpoint(3)), "zBzd");
}

TEST_F(MirrorTest, PartsThatTheCopyHasLostAreSent) {
  write(checkpoint(1), "abc");
  ASSERT_EQ(send(), "all");
  std::filesystem::remove(there(checkpoint(1)));
  write(checkpoint(2), "abd");
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(copied(checkpoint(2)), "abd");
  ASSERT_TRUE(write_file(there(checkpoint(2)), std::string(10, 'z')).ok());
  write(checkpoint(3), "abd");
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(copied(checkpoint(3)), "abd");
}

// A worker that left before it printed anything has a log, too.
TEST_F(MirrorTest, EmptyFilesAreThere) {
  std::filesystem::create_directories(here("logs"));
  write("logs/worker-0.log", "");
  ASSERT_EQ(send(), "all");
  EXPECT_TRUE(is_file(there("logs/worker-0.log")));
  ASSERT_TRUE(write_file(here("logs/worker-0.log"), "line\n").ok());
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(read_file(there("logs/worker-0.log")).value(), "line\n");
}

// A new session of the agent does not know what the parts were.
TEST_F(MirrorTest, ANewMirrorSendsEverything) {
  write(checkpoint(1), "abc");
  ASSERT_EQ(send(), "all");
  ASSERT_TRUE(write_file(there(checkpoint(1)), std::string(3 * kMostPartBytes, 'z')).ok());
  mirror_.emplace(job_, folder_.path() + "/node", MirrorOptions{.outputs = "outputs"});
  write(checkpoint(2), "abc");
  ASSERT_EQ(send(), "all");
  EXPECT_EQ(copied(checkpoint(2)), "abc");
}

}  // namespace
}  // namespace rubato::agent
