#include "elastic/data/exchange.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rubato::elastic {
namespace {

constexpr int kLogical = 4;
constexpr std::size_t kFloats = 1000;
constexpr float kScale = 0.25F;

class TestGuard final : public ExchangeGuard {
 public:
  explicit TestGuard(const Board& board) : board_(board) {}
  bool interrupted() const override { return interrupted_; }
  bool publish(const std::function<void()>& write) override {
    if (publications_left_ == 0) interrupted_ = true;
    if (interrupted_) return false;
    --publications_left_;
    write();
    board_.pulse();
    return true;
  }
  void interrupt_before_publication(int number) { publications_left_ = number; }
  void interrupt() { interrupted_ = true; }

 private:
  const Board& board_;
  int publications_left_ = 1000;
  std::atomic<bool> interrupted_{false};
};

// Two workers in one process: the first hosts one logical worker, the second three.
class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string prefix = fmt::format("rubato-exchange-test-{}", getpid());
    const ProgramShape shape{.gradient_floats = kFloats, .unit_bytes = {}};
    View view{.number = 1, .leader = 0, .board = prefix};
    SegmentMap segments;
    for (int worker = 0; worker < 2; ++worker) {
      const std::string name = fmt::format("{}-{}", prefix, worker);
      Result<WorkerSegment> segment = WorkerSegment::create(name, shape, kLogical);
      ASSERT_TRUE(segment.ok()) << segment.error().message;
      remove_segment(name);
      segments[worker] = std::make_shared<WorkerSegment>(std::move(*segment));
      view.members.push_back(
          {.address = {.id = worker, .segment = name},
           .hosts = worker == 0 ? LogicalRange{0, 1} : LogicalRange{1, kLogical}});
    }
    Result<Board> board =
        Board::create(prefix, {.logical_workers = kLogical, .gradient_floats = kFloats});
    ASSERT_TRUE(board.ok()) << board.error().message;
    remove_segment(prefix);
    board_.emplace(std::move(*board));
    board_->start_block(1, 2, 0);
    for (int worker = 0; worker < 2; ++worker) {
      Result<std::shared_ptr<const ActiveView>> active =
          make_active_view(view, worker, *board_, segments);
      ASSERT_TRUE(active.ok()) << active.error().message;
      views_.push_back(*active);
      for (const HostRoot& root : views_.back()->host.roots) {
        ASSERT_TRUE(segments[worker]->reserve_buffer(root.buffer).ok());
        float* const buffer = segments[worker]->buffer(root.buffer);
        for (std::size_t i = 0; i < kFloats; ++i) buffer[i] = value(root.range, i);
      }
    }
  }

  static float value(LogicalRange range, std::size_t index) {
    return 1.0F / static_cast<float>(3 + range.begin) + static_cast<float>(index);
  }

  std::optional<Board> board_;
  std::vector<std::shared_ptr<const ActiveView>> views_;
};

TEST_F(ExchangeTest, GivesTheTreeSumToAllMembers) {
  constexpr std::int64_t kSteps = 20;
  const auto work = [&](std::size_t worker) {
    TestGuard guard(*board_);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      EXPECT_TRUE(exchange(*board_, *views_[worker], step, kScale, guard));
    }
  };
  std::thread other(work, 1U);
  work(0U);
  other.join();
  EXPECT_EQ(board_->completed(), kSteps - 1);
  EXPECT_EQ(board_->gradient_step(kSteps - 1), kSteps - 1);
  for (std::size_t i = 0; i < kFloats; ++i) {
    const float left = value({0, 1}, i) + value({1, 2}, i);
    ASSERT_EQ(board_->gradient(kSteps - 1)[i], kScale * (left + value({2, 4}, i))) << i;
  }
}

// A newcomer that finds a step complete applies its gradient, or else has to start over.
TEST_F(ExchangeTest, WhoeverFindsAStepCompleteFindsItsGradient) {
  constexpr std::int64_t kSteps = 5000;
  std::atomic<std::int64_t> missed{-1};
  std::thread newcomer([&] {
    for (std::int64_t step = 0; step < kSteps; step = board_->completed() + 1) {
      std::int64_t done = -1;
      while (done < step) done = board_->completed();  // no pause: the moment is short
      const std::int64_t mark = board_->gradient_step(done);
      if (mark != done && std::max(mark, -2 - mark) <= done) missed = done;  // else overwritten
    }
  });
  const auto work = [&](std::size_t worker) {
    for (std::int64_t step = 0; step < kSteps; ++step) {
      TestGuard guard(*board_);
      EXPECT_TRUE(exchange(*board_, *views_[worker], step, kScale, guard));
    }
  };
  std::thread other(work, 1U);
  work(0U);
  other.join();
  newcomer.join();
  EXPECT_EQ(missed, -1);
}

TEST_F(ExchangeTest, AnInterruptedWaitLeavesTheStepIncomplete) {
  TestGuard guard(*board_);
  bool finished = true;
  std::thread waiting([&] { finished = exchange(*board_, *views_[0], 0, kScale, guard); });
  while (views_[0]->row().arrived != 0) std::this_thread::yield();
  guard.interrupt();
  board_->pulse();
  waiting.join();
  EXPECT_FALSE(finished);
  EXPECT_EQ(board_->completed(), -1);
  EXPECT_EQ(views_[0]->row().reduced, -1);
}

TEST_F(ExchangeTest, AFrozenWorkerPublishesNothing) {
  TestGuard frozen(*board_);
  frozen.interrupt_before_publication(1);  // after it has arrived, before its slice is published
  TestGuard guard(*board_);
  bool finished = true;
  std::thread other([&] { finished = exchange(*board_, *views_[1], 0, kScale, guard); });
  EXPECT_FALSE(exchange(*board_, *views_[0], 0, kScale, frozen));
  EXPECT_EQ(views_[0]->row().reduced, -1);
  guard.interrupt();
  board_->pulse();
  other.join();
  EXPECT_FALSE(finished);
  EXPECT_EQ(board_->completed(), -1);
}

// The others have lost this worker while it was stopped: one of them closed the view and saw that
// the step was not complete, so they will repeat it. Now it wakes up and adds the last slice. If it
// went on, it would overwrite what the repeated step begins with.
TEST_F(ExchangeTest, AWorkerThatCompletesAStepOfAClosedViewDoesNotGoOn) {
  MemberRow& other = views_[0]->block->rows[0];
  other.arrived = 0;
  other.reduced = 0;
  TestGuard guard(*board_);
  views_[1]->block->close();
  bool finished = true;
  std::thread late([&] { finished = exchange(*board_, *views_[1], 0, kScale, guard); });
  while (views_[1]->row().reduced != 0) std::this_thread::yield();
  EXPECT_TRUE(views_[1]->block->all_reduced(0));
  guard.interrupt();
  board_->pulse();
  late.join();
  EXPECT_FALSE(finished);
  EXPECT_EQ(board_->completed(), -1);
  EXPECT_NE(board_->gradient_step(0), 0);
}

}  // namespace
}  // namespace rubato::elastic
