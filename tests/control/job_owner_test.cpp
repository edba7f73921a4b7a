// Folders that belong to another history are not touched, and numbers are not used twice.
#include "control/job_owner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

State state_with(JobNumber number, const std::string& uid) {
  State state;
  JobRecord job;
  job.number = number;
  job.uid = uid;
  state.jobs[number] = job;
  state.next_job = number + 1;
  return state;
}

TEST(JobOwner, AFolderAppearsWithItsOwnerAndBelongsToNobodyElse) {
  const TemporaryFolder root;
  const std::string folder = root.path() + "/7";
  EXPECT_TRUE(owns_folder(folder, "abc")) << "there is none";
  ASSERT_TRUE(claim_folder(folder, {"store", "abc"}).ok());
  EXPECT_TRUE(is_file(folder + "/owner"));
  EXPECT_TRUE(claim_folder(folder, {"store", "abc"}).ok()) << "again";
  EXPECT_TRUE(owns_folder(folder, "abc"));
  EXPECT_FALSE(owns_folder(folder, "other"));
  EXPECT_FALSE(owns_folder(folder, ""));
  EXPECT_FALSE(claim_folder(folder, {"store", "other"}).ok());
}

TEST(JobOwner, AFolderOfAnEarlyVersionHasNoOwnerFile) {
  const TemporaryFolder root;
  ASSERT_TRUE(make_directories(root.path() + "/3").ok());
  EXPECT_TRUE(owns_folder(root.path() + "/3", ""));
  EXPECT_FALSE(owns_folder(root.path() + "/3", "abc"));
  EXPECT_TRUE(set_aside_foreign(root.path(), state_with(3, ""), true).empty());
}

TEST(JobOwner, ForeignFoldersAreMovedAside) {
  const TemporaryFolder root;
  for (const char* name : {"1", "2", "9"}) {
    ASSERT_TRUE(claim_folder(root.path() + "/" + name, {"s", std::string("uid-of-") + name}).ok());
  }
  const auto moved = set_aside_foreign(root.path(), state_with(2, "uid-of-2"), true);
  ASSERT_EQ(moved.size(), 2U);
  EXPECT_EQ(moved[0].folder, "jobs/1");
  EXPECT_FALSE(is_directory(root.path() + "/1"));
  EXPECT_TRUE(is_directory(root.path() + "/2"));
  EXPECT_FALSE(is_directory(root.path() + "/9"));
  EXPECT_EQ(highest_folder(root.path()), 9) << "a number that was used, though not by this log";
  // With the same number and another submission; only active jobs are looked at.
  const auto again = set_aside_foreign(root.path(), state_with(2, "another"), false);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(is_directory(root.path() + "/2.uidof2"));
}

TEST(JobOwner, WhatAJobPutsInPlaceOfTheFileBelongsToNobody) {
  const TemporaryFolder root;
  const std::string folder = root.path() + "/4";
  ASSERT_TRUE(make_directories(folder).ok());
  ASSERT_EQ(mkfifo((folder + "/owner").c_str(), 0600), 0);
  EXPECT_FALSE(owns_folder(folder, "abc"));
  EXPECT_FALSE(owns_folder(folder, ""));
  std::filesystem::remove(folder + "/owner");
  std::filesystem::create_symlink("/etc/hostname", folder + "/owner");
  EXPECT_FALSE(owns_folder(folder, "abc"));
}

TEST(JobOwner, TheMarkRemembersHowFarNumbersWereUsed) {
  const TemporaryFolder root;
  const std::string file = root.path() + "/next-job";
  {
    NumberMark mark(file);
    EXPECT_EQ(mark.store(), "");
    EXPECT_EQ(mark.next_job(), 1);
    mark.note("one", 5);
    mark.note("one", 1234);
  }
  NumberMark mark(file);
  EXPECT_EQ(mark.store(), "one");
  EXPECT_EQ(mark.next_job(), 1234);
}

}  // namespace
}  // namespace rubato::control
