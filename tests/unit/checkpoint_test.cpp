// Checkpoints survive what disks and crashes do to files.
#include "elastic/job/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/random.h"

namespace rubato::elastic {
namespace {

constexpr std::size_t kHeaderBytes = 40;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint()
      : parent_(testing::TempDir() + "rubato_checkpoint_test_" + std::to_string(::getpid())),
        folder_(parent_ + "/deep/er") {
    std::filesystem::remove_all(parent_);
  }
  ~Checkpoint() override {
    std::error_code ignored;
    std::filesystem::remove_all(parent_, ignored);
  }
  CheckpointFolder open(int keep = 3) const {
    auto folder = CheckpointFolder::open(folder_, keep);
    EXPECT_TRUE(folder.ok()) << folder.error().message;
    return *folder;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string path_of(std::int64_t step) const {
    const std::string digits = std::to_string(step);
    return path("checkpoint-" + std::string(12 - digits.size(), '0') + digits + ".rubato");
  }
  static CheckpointParts parts(std::int64_t step, std::string_view a, std::string_view b) {
    return {.step = step,
            .description = "{\"job\":1}",
            .parts = {std::as_bytes(std::span(a)), std::as_bytes(std::span(b))}};
  }
  static std::string text(const std::vector<std::byte>& part) {
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  // Writes the bytes as the only checkpoint. Returns why it is refused, or "(accepted)".
  std::string refusal(const CheckpointFolder& folder, std::string_view bytes) {
    EXPECT_TRUE(write_file(path_of(1), bytes));
    const auto found = folder.load_newest("{\"job\":1}");
    EXPECT_TRUE(found.ok());
    if (found->newest) return "(accepted)";
    EXPECT_EQ(found->refused.size(), 1U);
    return found->refused.empty() ? "" : found->refused[0];
  }

  std::string parent_;
  std::string folder_;
};

TEST_F(Checkpoint, WhatWasWrittenIsLoaded) {
  const auto folder = open();
  ASSERT_TRUE(folder.load_newest("x").ok());
  EXPECT_FALSE(folder.load_newest("x")->newest);
  ASSERT_TRUE(folder.write(parts(7, "first", "")));
  ASSERT_TRUE(folder.write(parts(30, "later", "more")));
  const auto found = open().load_newest("{\"job\":1}");
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(found->newest);
  EXPECT_TRUE(found->refused.empty());
  EXPECT_EQ(found->newest->step, 30);
  EXPECT_EQ(found->newest->description, "{\"job\":1}");
  ASSERT_EQ(found->newest->parts.size(), 2U);
  EXPECT_EQ(text(found->newest->parts[0]), "later");
  EXPECT_EQ(text(found->newest->parts[1]), "more");
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{7, 30}));
}

TEST_F(Checkpoint, PartsMayBeLongerThanABlockOrNone) {
  const auto folder = open();
  constexpr std::uint64_t kSeed = 3;
  Random random(kSeed);
  std::string large((2 << 20) + 12345, '\0');
  for (char& c : large) c = static_cast<char>(random.below(256));
  ASSERT_TRUE(folder.write(parts(1, large, "tail")));
  auto found = folder.load_newest("{\"job\":1}");
  ASSERT_TRUE(found->newest);
  EXPECT_EQ(text(found->newest->parts[0]), large) << "seed " << kSeed;
  EXPECT_EQ(text(found->newest->parts[1]), "tail");
  // The payload ends exactly at a block boundary.
  const std::size_t overhead = 8 + 9 + 8 + 2 * 8;
  ASSERT_TRUE(folder.write(parts(2, large.substr(0, (1 << 20) - overhead), "")));
  EXPECT_EQ(std::filesystem::file_size(path_of(2)), kHeaderBytes + (1 << 20) + 4);
  found = folder.load_newest("{\"job\":1}");
  ASSERT_TRUE(found->newest);
  EXPECT_EQ(found->newest->step, 2);
  ASSERT_TRUE(folder.write({.step = 3, .description = "", .parts = {}}));
  found = folder.load_newest("");
  ASSERT_TRUE(found->newest);
  EXPECT_TRUE(found->newest->parts.empty());
}

TEST_F(Checkpoint, EveryFlippedByteIsNoticed) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "some content", "other")));
  const std::string good = *read_file(path_of(1));
  EXPECT_EQ(refusal(folder, good), "(accepted)");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      EXPECT_NE(refusal(folder, bad).find("damaged"), std::string::npos) << "byte " << i;
    }
  }
}

TEST_F(Checkpoint, EveryTruncationAndExtensionIsNoticed) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "some content", "other")));
  const std::string good = *read_file(path_of(1));
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(refusal(folder, good.substr(0, length)).find("truncated"), std::string::npos)
        << length;
  }
  for (const std::size_t more : {1U, 3U, 4U, 5U, 100U}) {
    EXPECT_NE(refusal(folder, good + std::string(more, '\0')), "(accepted)") << more;
  }
  EXPECT_NE(refusal(folder, good + good), "(accepted)");
}

TEST_F(Checkpoint, BlocksInTheWrongPlaceAreNoticed) {
  const auto folder = open();
  const std::string large(4 << 20, 'x');  // blocks 1 and 2 have equal bytes
  ASSERT_TRUE(folder.write(parts(1, large, "")));
  std::string file = *read_file(path_of(1));
  constexpr std::size_t kBlock = (1 << 20) + 4;
  const std::string second = file.substr(kHeaderBytes + kBlock, kBlock);
  const std::string third = file.substr(kHeaderBytes + 2 * kBlock, kBlock);
  EXPECT_EQ(second.substr(0, 1 << 20), third.substr(0, 1 << 20));
  file.replace(kHeaderBytes + kBlock, kBlock, third);
  file.replace(kHeaderBytes + 2 * kBlock, kBlock, second);
  EXPECT_NE(refusal(folder, file).find("block 1"), std::string::npos);
}

// Correct checksums but wrong numbers: nothing of that size is allocated.
TEST_F(Checkpoint, AbsurdLengthsAreRefused) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "some content", "other")));
  const std::string good = *read_file(path_of(1));
  const std::size_t numbers[] = {0, 8 + 9, 8 + 9 + 8, 8 + 9 + 16};  // in the payload
  for (const std::size_t at : numbers) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{13}, std::uint64_t{1} << 40,
          std::uint64_t{1} << 61, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
      std::string payload = good.substr(kHeaderBytes, good.size() - kHeaderBytes - 4);
      std::memcpy(payload.data() + at, &value, 8);
      const std::string number(8, '\0');
      const std::uint32_t crc =
          crc32c(std::as_bytes(std::span(payload)), crc32c(std::as_bytes(std::span(number))));
      std::string bad = good.substr(0, kHeaderBytes) + payload + "0000";
      std::memcpy(bad.data() + bad.size() - 4, &crc, 4);
      EXPECT_NE(refusal(folder, bad), "(accepted)") << "number at " << at << " = " << value;
    }
  }
  for (const std::uint64_t payload :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    std::string bad = good;
    std::memcpy(bad.data() + 24, &payload, 8);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(bad)).first(kHeaderBytes - 4));
    std::memcpy(bad.data() + kHeaderBytes - 4, &crc, 4);
    EXPECT_NE(refusal(folder, bad).find("given in the header"), std::string::npos);
  }
}

TEST_F(Checkpoint, AnotherVersionIsNamed) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "a", "b")));
  std::string file = *read_file(path_of(1));
  file[8] = 9;
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(file)).first(kHeaderBytes - 4));
  std::memcpy(file.data() + kHeaderBytes - 4, &crc, 4);
  EXPECT_NE(refusal(folder, file).find("format version 9; this program reads version 1"),
            std::string::npos);
}

TEST_F(Checkpoint, ADamagedOneFallsBackToTheOneBefore) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(10, "ten", "")));
  ASSERT_TRUE(folder.write(parts(20, "twenty", "")));
  ASSERT_TRUE(folder.write(parts(30, "thirty", "")));
  std::filesystem::resize_file(path_of(30), 50);
  std::string file = *read_file(path_of(20));
  file[60] = static_cast<char>(file[60] ^ 4);
  ASSERT_TRUE(write_file(path_of(20), file));
  const auto found = folder.load_newest("{\"job\":1}");
  ASSERT_TRUE(found->newest);
  EXPECT_EQ(found->newest->step, 10);
  ASSERT_EQ(found->refused.size(), 2U);
  EXPECT_EQ(found->refused[0].find(path_of(30) + ": truncated"), 0U);
  EXPECT_EQ(found->refused[1].find(path_of(20) + ": damaged"), 0U);
}

TEST_F(Checkpoint, AnotherJobsCheckpointIsRefused) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "a", "b")));
  const auto found = folder.load_newest("{\"job\":2}");
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->newest);
  ASSERT_EQ(found->refused.size(), 1U);
  EXPECT_NE(found->refused[0].find("another job or shape: {\"job\":1}"), std::string::npos);
}

TEST_F(Checkpoint, ARenamedOneIsRefused) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(1, "a", "b")));
  std::filesystem::rename(path_of(1), path_of(2));
  const auto found = folder.load_newest("{\"job\":1}");
  EXPECT_FALSE(found->newest);
  EXPECT_NE(found->refused.at(0).find("holds step 1"), std::string::npos);
}

TEST_F(Checkpoint, ThingsThatAreNoFilesAreRefused) {
  const auto folder = open();
  ASSERT_TRUE(make_directories(path_of(1)));
  ASSERT_EQ(::mkfifo(path_of(2).c_str(), 0600), 0);
  std::filesystem::create_symlink("/nonexistent", path_of(3));
  const auto found = folder.load_newest("");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->refused.size(), 3U);
}

TEST_F(Checkpoint, OnlyTheNewestAreKept) {
  const auto folder = open(2);
  for (const std::int64_t step : {1, 2, 3, 4, 10, 100}) {
    ASSERT_TRUE(folder.write(parts(step, "a", "b")));
  }
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{10, 100}));
  ASSERT_TRUE(folder.write(parts(100, "again", "")));  // replaces
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{10, 100}));
  EXPECT_EQ(text(folder.load_newest("{\"job\":1}")->newest->parts[0]), "again");
}

// After a fallback, training writes steps below that of the damaged file.
TEST_F(Checkpoint, ADamagedLaterOneNeverPushesOutAGoodOne) {
  const auto folder = open(1);
  ASSERT_TRUE(folder.write(parts(80, "a", "")));
  ASSERT_TRUE(write_file(path_of(100), "damaged"));
  ASSERT_TRUE(folder.write(parts(85, "b", "")));
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{85, 100}));
  EXPECT_EQ(folder.load_newest("{\"job\":1}")->newest->step, 85);
  ASSERT_TRUE(folder.write(parts(105, "c", "")));
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{105}));
}

TEST_F(Checkpoint, LeftoversAreRemovedAndForeignFilesLeftAlone) {
  ASSERT_TRUE(make_directories(folder_));
  ASSERT_TRUE(write_file(path_of(5) + ".unfinished123", "half"));
  for (const char* name : {"notes.txt", "checkpoint-5.rubato", "checkpoint-.rubato",
                           "checkpoint-0000000000x5.rubato", "checkpoint-rubato"}) {
    ASSERT_TRUE(write_file(path(name), "mine"));
  }
  const auto folder = open(1);
  EXPECT_FALSE(is_file(path_of(5) + ".unfinished123"));
  EXPECT_TRUE(folder.steps()->empty());
  ASSERT_TRUE(folder.write(parts(1, "a", "")));
  ASSERT_TRUE(folder.write(parts(2, "a", "")));
  EXPECT_EQ(list_directory(folder_)->size(), 6U);
}

TEST_F(Checkpoint, StepsBeyondThePaddingAreSortedAsNumbers) {
  const auto folder = open();
  ASSERT_TRUE(folder.write(parts(2'000'000'000'000, "a", "")));
  ASSERT_TRUE(folder.write(parts(999'999'999'999, "b", "")));
  EXPECT_EQ(*folder.steps(), (std::vector<std::int64_t>{999'999'999'999, 2'000'000'000'000}));
  EXPECT_EQ(folder.load_newest("{\"job\":1}")->newest->step, 2'000'000'000'000);
}

TEST_F(Checkpoint, AFullDiskLeavesTheOlderOnesAlone) {
  const auto folder = open(1);
  ASSERT_TRUE(folder.write(parts(1, "a", "")));
  // Files longer than 3 MiB cannot be written while this limit is set.
  auto* const handler_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 3 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const std::string large(8 << 20, 'x');
  const Status written = folder.write(parts(2, large, ""));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler_before);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message.find(path_of(2) + ": cannot write: "), 0U)
      << written.error().message;
  EXPECT_EQ(list_directory(folder_)->size(), 1U);
  EXPECT_EQ(folder.load_newest("{\"job\":1}")->newest->step, 1);
  ASSERT_TRUE(folder.write(parts(2, large, "")));  // there is space again
}

TEST_F(Checkpoint, AFolderThatCannotBeWrittenIsNamed) {
  const auto folder = open();
  // Root may write everywhere.
  const uid_t before = ::geteuid();
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  if (before == 0) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const Status written = folder.write(parts(1, "a", ""));
  const auto below = CheckpointFolder::open(folder_ + "/below", 1);
  if (before == 0) {
    ASSERT_EQ(::seteuid(before), 0);
  }
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message.find(path_of(1) + ": cannot create: "), 0U)
      << written.error().message;
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error().message.find(folder_ + "/below: cannot create: "), 0U)
      << below.error().message;
  EXPECT_TRUE(list_directory(folder_)->empty());
}

TEST_F(Checkpoint, AVanishedFolderIsAnError) {
  const auto folder = open();
  std::filesystem::remove_all(folder_);
  EXPECT_FALSE(folder.write(parts(1, "a", "")).ok());
  EXPECT_FALSE(folder.load_newest("").ok());
  ASSERT_TRUE(write_file(folder_, "a file"));
  EXPECT_FALSE(CheckpointFolder::open(folder_, 1).ok());
}

}  // namespace
}  // namespace rubato::elastic
