// A job's folder: who may have written its settings, and events from several machines.
#include "elastic/job/job_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "control/temporary_folder.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {
namespace {

class JobFolderTest : public ::testing::Test {
 protected:
  std::string why_not_own() const {
    const Status own = JobFolder(path_).check_settings_are_own();
    return own.ok() ? "" : own.error().message;
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_.path();
};

// 'rubato join' runs the command in it.
TEST_F(JobFolderTest, SettingsOfAnotherUserAreNotRun) {
  const JobFolder folder(path_);
  EXPECT_NE(why_not_own().find("cannot read"), std::string::npos);
  ASSERT_TRUE(folder.write_settings({.name = "job", .command = {"true"}}).ok());
  EXPECT_EQ(why_not_own(), "");
  struct stat info {};
  ASSERT_EQ(stat(folder.settings_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(chmod(folder.settings_file().c_str(), 0664), 0);
  EXPECT_NE(why_not_own().find("run: chmod 600"), std::string::npos) << why_not_own();
  ASSERT_EQ(chmod(folder.settings_file().c_str(), 0600), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(folder.settings_file().c_str(), 12345, 12345), 0);
  EXPECT_NE(why_not_own().find("belongs to user 12345"), std::string::npos) << why_not_own();
}

// 'rubato scale' may ask for fewer workers than other nodes have offered.
TEST(Targets, GiveAllNodesTogetherAsManyWorkersAsWanted) {
  Target target{.workers = 5, .elsewhere = {{"b", 2}, {"c", 2}}};
  const auto shares = [&] {
    return std::vector<int>{target.on_node("a", "a"), target.on_node("b", "a"),
                            target.on_node("c", "a"), target.on_node("d", "a")};
  };
  EXPECT_EQ(shares(), (std::vector<int>{1, 2, 2, 0}));
  EXPECT_EQ(target.first_node("a"), "a");
  target.workers = 3;
  EXPECT_EQ(shares(), (std::vector<int>{0, 2, 1, 0}));
  EXPECT_EQ(target.first_node("a"), "b");
  target.workers = 1;
  EXPECT_EQ(shares(), (std::vector<int>{0, 1, 0, 0}));
}

// A process of another machine was stopped while it wrote an event.
TEST_F(JobFolderTest, AnEventIsWrittenEvenIfSomebodyKeepsTheLock) {
  const JobFolder folder(path_);
  ASSERT_TRUE(folder.append_event({{"type", "first"}}).ok());
  const Descriptor other(open(folder.events_file().c_str(), O_WRONLY | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSERT_EQ(fcntl(other.get(), F_OFD_SETLK, &whole), 0);
  ASSERT_TRUE(folder.append_event({{"type", "second"}}).ok());
  EXPECT_EQ(*read_file(folder.events_file()), "{\"type\":\"first\"}\n{\"type\":\"second\"}\n");
}

}  // namespace
}  // namespace rubato::elastic
