// Prints the cost of poll(). There is no assertion about time.
#include <algorithm>

#include "base/stats.h"
#include "control/executor/executor_fixture.h"

namespace rubato::control {
namespace {

using PollCost = ExecutorTest;

TEST_F(PollCost, OfFourRunningJobsDoesNotGrowWithEndedOnes) {
  start_executor();
  for (JobNumber job = 1; job <= 4; ++job) want(job, toy(100000, 4, 20000), 1);
  ASSERT_TRUE(until([&] { return step(1) > 2 && step(2) > 2 && step(3) > 2 && step(4) > 2; }));
  const auto microseconds = [&] {
    std::vector<double> spent;
    for (int i = 0; i < 300; ++i) {
      const auto began = std::chrono::steady_clock::now();
      for (Notice& notice : executor_->poll()) notices_.push_back(std::move(notice));
      spent.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
              .count());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::sort(spent.begin(), spent.end());
    return std::pair(percentile_sorted(spent, 50), percentile_sorted(spent, 99));
  };
  const auto before = microseconds();
  JobRecord ended{.phase = Phase::kFinished};
  const auto began = std::chrono::steady_clock::now();
  for (JobNumber job = 1001; job <= 11000; ++job) {
    ended.number = job;
    ASSERT_TRUE(executor_->adopt(ended).ok());
  }
  const double adopting =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  const auto after = microseconds();
  std::printf(
      "microseconds per poll, median and 99th percentile: %.1f %.1f with 4 running jobs, "
      "%.1f %.1f with 10000 more that have ended; adopting those took %.1f ms\n",
      before.first, before.second, after.first, after.second, adopting);
  for (JobNumber job = 1; job <= 4; ++job) executor_->cancel(job);
  for (JobNumber job = 1; job <= 4; ++job) {
    ASSERT_TRUE(until([&] { return was_told(job, Notice::Kind::kStopped); }));
  }
}

}  // namespace
}  // namespace rubato::control
