#include "elastic/job/checkpoint_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "control/temporary_folder.h"
#include "elastic/job/checkpoint.h"

namespace rubato::elastic {
namespace {

TEST(CheckpointPlaceTest, IsAFolder) {
  for (const char* url : {"file:/data/x", "file:///data/x", "file:/data/y/../x/"}) {
    const auto folder = parse_checkpoint_place(url);
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    EXPECT_EQ(*folder, "/data/x");
  }
  for (const char* url : {"", "/data/x", "file:", "file:x", "file:/", "file://", "s3://bucket/x"}) {
    const auto folder = parse_checkpoint_place(url);
    ASSERT_FALSE(folder.ok()) << url;
    EXPECT_NE(folder.error().message.find("file:/FOLDER"), std::string::npos);
  }
}

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    std::filesystem::create_directories(job_.path());
    std::filesystem::create_directories(place_);
  }
  static std::string problem_of(const Status& status) {
    return status.ok() ? "" : status.error().message;
  }

  TemporaryFolder folder_;
  const JobFolder job_{folder_.path() + "/job"};
  const std::string place_ = folder_.path() + "/shared";
  const std::string target_ = place_ + "/j1-uid";
};

TEST_F(LinkTest, CheckpointsAreFoundThroughTheLink) {
  ASSERT_EQ(problem_of(link_checkpoints(job_, target_)), "");
  ASSERT_EQ(problem_of(link_checkpoints(job_, target_)), "");  // as when the job continues
  const auto checkpoints = CheckpointFolder::open(job_.checkpoint_folder(), 2);
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.error().message;
  ASSERT_TRUE(checkpoints->write({.step = 7, .description = "d", .parts = {}}).ok());
  EXPECT_EQ(CheckpointFolder::for_reading(target_).steps().value().size(), 1U);
  struct stat status {};
  ASSERT_EQ(stat(target_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  // Another machine has another folder of the job, and finds them.
  const JobFolder elsewhere(folder_.path() + "/elsewhere");
  std::filesystem::create_directories(elsewhere.path());
  ASSERT_EQ(problem_of(link_checkpoints(elsewhere, target_)), "");
  const auto found = CheckpointFolder::for_reading(elsewhere.checkpoint_folder()).load_newest("d");
  ASSERT_TRUE(found.ok() && found->newest);
  EXPECT_EQ(found->newest->step, 7);
}

TEST_F(LinkTest, AJobWithoutAPlaceIsLeftAsItIs) {
  ASSERT_EQ(problem_of(link_checkpoints(job_, "")), "");
  EXPECT_FALSE(std::filesystem::exists(job_.checkpoint_folder()));
  EXPECT_EQ(checkpoints_of(job_), job_.checkpoint_folder());
}

TEST_F(LinkTest, APlaceThatIsNotMountedIsNotMade) {
  std::filesystem::remove_all(place_);
  const std::string problem = problem_of(link_checkpoints(job_, target_));
  EXPECT_NE(problem.find(place_ + ": is not a folder on this machine; mount it"), std::string::npos)
      << problem;
  EXPECT_FALSE(std::filesystem::exists(place_));
}

TEST_F(LinkTest, CheckpointsThatAreElsewhereAreNotForgotten) {
  ASSERT_EQ(problem_of(link_checkpoints(job_, target_)), "");
  EXPECT_NE(problem_of(link_checkpoints(job_, place_ + "/other")).find("leads to " + target_),
            std::string::npos);
  EXPECT_NE(problem_of(link_checkpoints(job_, "")).find("leads to " + target_), std::string::npos);

  const JobFolder second(folder_.path() + "/second");
  std::filesystem::create_directories(second.checkpoint_folder());
  ASSERT_EQ(problem_of(link_checkpoints(second, target_)), "");  // it was empty
  const JobFolder third(folder_.path() + "/third");
  std::filesystem::create_directories(third.checkpoint_folder());
  ASSERT_TRUE(write_file(third.checkpoint_folder() + "/checkpoint-000000000007.rubato", "x").ok());
  EXPECT_NE(problem_of(link_checkpoints(third, target_)).find("are in its folder"),
            std::string::npos);
}

// A daemon has a copy of the job's folder without them.
TEST_F(LinkTest, ACopyOfTheFolderLeadsToThem) {
  JobSettings settings{.name = "n", .token = "t"};
  settings.checkpoints = target_;
  ASSERT_TRUE(job_.write_settings(settings).ok());
  EXPECT_EQ(checkpoints_of(job_), target_);
}

}  // namespace
}  // namespace rubato::elastic
