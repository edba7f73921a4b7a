#include "elastic/job/async_registry.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "elastic/job/job_folder.h"

namespace rubato::elastic {
namespace {

using membership::Input;
using membership::Swapped;
using membership::ViewPtr;
using membership::ViewsRead;

// A registry in memory whose answers the test may spoil.
class ToldRegistry final : public Registry {
 public:
  Result<Record> get(const std::string& name) override {
    if (name != kViewRecord) return Record{};
    if (fails) return Error{ErrorCode::kIo, "the cable is out"};
    const auto newest = static_cast<std::int64_t>(views.size());
    return newest == 0 ? Record{} : Record{newest, views.back()};
  }
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override {
    if (full) return Error{ErrorCode::kRefused, "no space left"};
    if (name != kViewRecord || expected != static_cast<std::int64_t>(views.size())) return false;
    views.push_back(value);
    if (!loses_answer) return true;
    loses_answer = false;
    return Error{ErrorCode::kIo, "no answer"};
  }
  Result<std::optional<std::string>> at(const std::string&, std::int64_t version) override {
    if (version > static_cast<std::int64_t>(views.size()) - hidden) {
      return std::optional<std::string>();
    }
    return std::optional<std::string>(views[static_cast<std::size_t>(version - 1)]);
  }

  std::unique_ptr<RegistryWatch> watch(std::function<void()> tell) override {
    changed = std::move(tell);
    return std::make_unique<RegistryWatch>();
  }

  std::function<void()> changed;
  std::deque<std::string> views;
  bool fails = false;
  bool full = false;          // nothing can be written
  bool loses_answer = false;  // the next write happens, but nobody hears of it
  std::int64_t hidden = 0;    // how many of the newest are not visible yet
};

class AsyncRegistryTest : public testing::Test {
 protected:
  Input answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !answers_.empty(); });
    Input input = std::move(answers_.front());
    answers_.pop_front();
    return input;
  }
  Swapped::Outcome swap(const ViewPtr& view) {
    async_.ask(membership::Swap{view});
    return std::get<Swapped>(answer()).outcome;
  }
  std::vector<std::int64_t> read(std::int64_t after) {
    async_.ask(membership::ReadViews{after});
    const Input read = answer();
    std::vector<std::int64_t> numbers;
    for (const ViewPtr& view : std::get<ViewsRead>(read).views) numbers.push_back(view->number);
    return numbers;
  }
  static ViewPtr view(std::int64_t number, const std::string& cause, double prepare_s = 0) {
    View made;
    made.number = number;
    made.cause = cause;
    made.prepare_s = prepare_s;
    return std::make_shared<const View>(std::move(made));
  }

  ToldRegistry registry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Input> answers_;
  AsyncRegistry async_{registry_,
                       [this](Input input) {
                         {
                           const std::lock_guard lock(mutex_);
                           answers_.push_back(std::move(input));
                         }
                         changed_.notify_all();
                       },
                       [](const std::string&) {}};
};

TEST_F(AsyncRegistryTest, AnswersWhatIsNew) {
  EXPECT_EQ(read(0), std::vector<std::int64_t>{});
  for (int number = 1; number <= 4; ++number) {
    ASSERT_EQ(swap(view(number, "failure")), Swapped::Outcome::kWon);
  }
  EXPECT_EQ(read(0), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(read(2), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(read(4), std::vector<std::int64_t>{});
}

// One that is not visible yet makes the answer stale, but never leaves a gap.
TEST_F(AsyncRegistryTest, LeavesNoGap) {
  for (int number = 1; number <= 4; ++number) {
    ASSERT_EQ(swap(view(number, "failure")), Swapped::Outcome::kWon);
  }
  registry_.hidden = 2;
  EXPECT_EQ(read(1), (std::vector<std::int64_t>{2}));
}

TEST_F(AsyncRegistryTest, AWriteWhoseAnswerIsLostIsFoundWhenItIsRepeated) {
  const ViewPtr first = view(1, "failure");
  registry_.loses_answer = true;
  EXPECT_EQ(swap(first), Swapped::Outcome::kUnknown);
  EXPECT_EQ(swap(first), Swapped::Outcome::kWon);
  EXPECT_EQ(swap(view(1, "failure", 2.5)), Swapped::Outcome::kLost);
}

TEST_F(AsyncRegistryTest, AViewWhosePredecessorIsNotVisibleIsAskedForAgain) {
  EXPECT_EQ(swap(view(2, "failure")), Swapped::Outcome::kUnknown);
}

// On a full disk the training must not wait for a change that can be made later. A recovery can
// only be repeated.
TEST_F(AsyncRegistryTest, APlannedChangeIsGivenUpIfItSurelyWasNotWritten) {
  registry_.full = true;
  EXPECT_EQ(swap(view(1, "join")), Swapped::Outcome::kLost);
  EXPECT_EQ(swap(view(1, "failure")), Swapped::Outcome::kUnknown);
}

// The first try got no answer, so the view may be there although nothing can be written now.
TEST_F(AsyncRegistryTest, APlannedChangeIsNotGivenUpIfAnEarlierTryMayHaveMadeIt) {
  const ViewPtr planned = view(1, "join");
  registry_.loses_answer = true;
  EXPECT_EQ(swap(planned), Swapped::Outcome::kUnknown);
  registry_.full = true;
  EXPECT_EQ(swap(planned), Swapped::Outcome::kUnknown);
  registry_.full = false;
  EXPECT_EQ(swap(planned), Swapped::Outcome::kWon);
}

TEST_F(AsyncRegistryTest, PassesOnWhatTheWatchTells) {
  registry_.changed();
  EXPECT_TRUE(std::holds_alternative<membership::RegistryChanged>(answer()));
}

TEST_F(AsyncRegistryTest, SaysThatAReadFailed) {
  registry_.fails = true;
  async_.ask(membership::ReadViews{0});
  EXPECT_TRUE(std::holds_alternative<membership::ReadFailed>(answer()));
  registry_.fails = false;
  EXPECT_EQ(read(0), std::vector<std::int64_t>{});
}

}  // namespace
}  // namespace rubato::elastic
