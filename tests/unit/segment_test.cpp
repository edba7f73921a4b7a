// Shared memory that is short, of somebody else, or not what it says.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>

#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"
#include "elastic/memory/shared_memory.h"
#include "elastic/memory/worker_segment.h"

namespace {

std::atomic<int> g_short_of_memory{0};  // so many reservations fail

}  // namespace

// In place of the C library's.
extern "C" int posix_fallocate(int file, off_t offset, off_t bytes) {
  if (g_short_of_memory > 0) {
    --g_short_of_memory;
    return ENOSPC;
  }
  return fallocate(file, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace rubato::elastic {
namespace {

class SegmentTest : public ::testing::Test {
 protected:
  ~SegmentTest() override {
    g_short_of_memory = 0;
    remove_segments(prefix_);
  }
  static std::string file_of(const std::string& name) { return "/dev/shm/" + name; }
  template <typename T>
  static void expect_refused(const Result<T>& opened, const std::string& why) {
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().message.find(why), std::string::npos) << opened.error().message;
  }

  const std::string prefix_ = fmt::format("rubato.segment-test-{}.", getpid());
};

TEST_F(SegmentTest, IsRefusedIfOthersMayHaveWrittenIt) {
  const std::string name = prefix_ + "a";
  ASSERT_TRUE(Segment::create(name, 4096).ok());
  EXPECT_TRUE(Segment::open(name, Segment::Access::kRead).ok());
  ASSERT_EQ(chmod(file_of(name).c_str(), 0666), 0);
  expect_refused(Segment::open(name, Segment::Access::kRead), "another user may have created it");
  ASSERT_EQ(chmod(file_of(name).c_str(), 0600), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(file_of(name).c_str(), 12345, 12345), 0);
  expect_refused(Segment::open(name, Segment::Access::kReadWrite), "belongs to user 12345");
}

TEST_F(SegmentTest, ABoardMustHaveTheSizeOfItsHeader) {
  const std::string name = prefix_ + "board";
  const BoardShape shape{
      .logical_workers = 4, .gradient_floats = 1000, .private_bytes = 8, .batch = 3};
  ASSERT_TRUE(Board::create(name, shape).ok());
  ASSERT_TRUE(Board::open(name).ok());
  const auto size = std::filesystem::file_size(file_of(name));
  for (const auto wrong : {size - 4096, size + 4096}) {
    std::filesystem::resize_file(file_of(name), wrong);
    expect_refused(Board::open(name), "do not match its header");
  }
  const std::string data = DataBoard::name_for(name);
  ASSERT_TRUE(DataBoard::create(data, {.most_logical_workers = 4, .most_samples = 9}).ok());
  ASSERT_TRUE(DataBoard::open(data).ok());
  std::filesystem::resize_file(file_of(data), std::filesystem::file_size(file_of(data)) - 8);
  expect_refused(DataBoard::open(data), "do not match its header");
}

// After a failure, survivors need memory that the lost workers had, which is free a little later.
TEST_F(SegmentTest, WhoNeedsABufferWaitsForMemoryThatOthersFree) {
  const std::string name = prefix_ + "worker";
  const ProgramShape shape{.gradient_floats = 1000, .unit_bytes = {64}};
  const Result<WorkerSegment> own = WorkerSegment::create(name, shape, 4);
  ASSERT_TRUE(own.ok());
  g_short_of_memory = 3;
  EXPECT_TRUE(own->reserve_buffer(1, std::chrono::hours(1)).ok());
  EXPECT_EQ(g_short_of_memory, 0);
  g_short_of_memory = 1'000'000;
  expect_refused(own->reserve_buffer(2, std::chrono::milliseconds(0)), "cannot reserve");
}

}  // namespace
}  // namespace rubato::elastic
