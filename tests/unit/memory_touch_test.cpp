#include "elastic/memory/memory_touch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "elastic/memory/active_view.h"

namespace rubato::elastic {
namespace {

constexpr int kLogical = 4;
constexpr std::size_t kFloats = (std::size_t{5} << 20) / sizeof(float) + 3;  // not whole pages

class MemoryTouchTest : public ::testing::Test {
 protected:
  ~MemoryTouchTest() override { remove_segments(prefix_); }

  std::shared_ptr<const WorkerSegment> make_segment(int worker) {
    Result<WorkerSegment> made =
        WorkerSegment::create(fmt::format("{}worker.{}", prefix_, worker), shape_, kLogical);
    EXPECT_TRUE(made.ok());
    return std::make_shared<WorkerSegment>(std::move(*made));
  }
  Board make_board() {
    Result<Board> board =
        Board::create(prefix_ + "board", {.logical_workers = kLogical, .gradient_floats = kFloats});
    EXPECT_TRUE(board.ok());
    return std::move(*board);
  }
  static std::size_t taken_bytes(const WorkerSegment& segment) {
    struct stat status {};
    EXPECT_EQ(stat(("/dev/shm/" + segment.name()).c_str(), &status), 0);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }
  static void wait(const MemoryTouch& touch) {
    while (!touch.done()) std::this_thread::yield();
    EXPECT_FALSE(touch.failed());
  }

  const std::string prefix_ = fmt::format("rubato.touch-test-{}.", getpid());
  const ProgramShape shape_{.gradient_floats = kFloats, .unit_bytes = {64}};
};

TEST_F(MemoryTouchTest, TakesTheBufferThatAHostExportsAndChangesNothing) {
  const Board board = make_board();
  const auto own = make_segment(0);
  View view{.number = 1, .leader = 0, .members = {{{.id = 0}, {0, kLogical}}}};
  const auto active = make_active_view(view, 0, board, {{0, own}});
  ASSERT_TRUE(active.ok());
  ASSERT_EQ((*active)->host.roots.size(), 1U);
  const int root = (*active)->host.roots.front().buffer;
  ASSERT_TRUE(own->reserve_buffer(root).ok());
  constexpr std::size_t kUsed = 1000;
  for (std::size_t i = 0; i < kUsed; ++i) own->buffer(root)[i] = static_cast<float>(i);

  const MemoryTouch touch(*active, board);
  wait(touch);
  EXPECT_GE(taken_bytes(*own), kFloats * sizeof(float));
  for (std::size_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(own->buffer(root)[i], i < kUsed ? static_cast<float>(i) : 0.0F) << i;
  }
}

TEST_F(MemoryTouchTest, ReadsOtherWorkersBuffers) {
  const Board board = make_board();
  const auto own = make_segment(0);
  const auto other = make_segment(1);
  View view{.number = 1, .leader = 0, .members = {{{.id = 0}, {0, 2}}, {{.id = 1}, {2, kLogical}}}};
  Result<WorkerSegment> mapped = WorkerSegment::open(other->name(), shape_, kLogical);
  ASSERT_TRUE(mapped.ok());
  const auto active = make_active_view(
      view, 0, board, {{0, own}, {1, std::make_shared<WorkerSegment>(std::move(*mapped))}});
  ASSERT_TRUE(active.ok());
  board.gradient(1)[7] = 3.5F;

  const MemoryTouch touch(*active, board);
  wait(touch);
  EXPECT_EQ(board.gradient(1)[7], 3.5F);
}

TEST_F(MemoryTouchTest, CanBeGivenUp) {
  const Board board = make_board();
  const auto own = make_segment(0);
  View view{.number = 1, .leader = 0, .members = {{{.id = 0}, {0, kLogical}}}};
  const auto active = make_active_view(view, 0, board, {{0, own}});
  ASSERT_TRUE(active.ok());
  for (int i = 0; i < 20; ++i) const MemoryTouch given_up(*active, board);
}

}  // namespace
}  // namespace rubato::elastic
