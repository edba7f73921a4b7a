// The registry in a folder, and what shared storage may do to it.
#include "elastic/job/registry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "control/temporary_folder.h"

namespace {

std::atomic<bool> g_answer_lost{false};

}  // namespace

// In place of the C library's: as on NFS, where the answer to a request may get lost and the
// repeated request finds the link that the first one has made.
extern "C" int link(const char* from, const char* to) noexcept {
  const int made = linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
  if (made != 0 || !g_answer_lost) return made;
  errno = EEXIST;
  return -1;
}

namespace rubato::elastic {
namespace {

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = FileRegistry::open(folder_);
    ASSERT_TRUE(opened.ok());
    registry_ = std::move(*opened);
  }
  void TearDown() override { g_answer_lost = false; }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::unique_ptr<FileRegistry> registry_;
};

TEST_F(RegistryTest, VersionsAreConsecutiveAndDecidedOnce) {
  EXPECT_EQ(registry_->get("view")->version, 0);
  for (std::int64_t version = 1; version <= 20; ++version) {
    EXPECT_TRUE(*registry_->compare_and_swap("view", version - 1, std::to_string(version)));
    EXPECT_FALSE(*registry_->compare_and_swap("view", version - 1, "late"));
    EXPECT_FALSE(*registry_->compare_and_swap("view", version + 1, "early"));
    EXPECT_EQ(registry_->get("view")->version, version);
    EXPECT_EQ(registry_->get("view")->value, std::to_string(version));
  }
  EXPECT_EQ(registry_->at("view", 3)->value(), "3");
  EXPECT_FALSE(registry_->at("view", 21)->has_value());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("view.")) << entry.path();
  }
}

// A process of another machine may have the same id, and its draft may already be a record.
TEST_F(RegistryTest, ADraftOfAnotherMachineIsNeverOverwritten) {
  ASSERT_TRUE(*registry_->compare_and_swap("view", 0, "decided"));
  for (int i = 0; i < 1000; ++i) {
    std::filesystem::create_hard_link(folder_ + "/view.1",
                                      fmt::format("{}/.draft.{}.{}", folder_, getpid(), i));
  }
  ASSERT_TRUE(*registry_->compare_and_swap("view", 1, "next"));
  EXPECT_EQ(registry_->at("view", 1)->value(), "decided");
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(registry_draft_name());
  EXPECT_EQ(names.size(), 100U);
}

TEST_F(RegistryTest, AWonVersionIsWonEvenIfTheAnswerGotLost) {
  g_answer_lost = true;
  EXPECT_TRUE(*registry_->compare_and_swap("view", 0, "mine"));
  EXPECT_FALSE(*registry_->compare_and_swap("view", 0, "too late"));
  EXPECT_EQ(registry_->get("view")->value, "mine");
}

}  // namespace
}  // namespace rubato::elastic
