// What the leader writes: checkpoints in the background, and what it says if they fail.
#include "elastic/job/records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "control/temporary_folder.h"
#include "elastic/job/job_description.h"

namespace rubato::elastic {
namespace {

TEST(BackgroundCheckpoints, ThatFailAreToldOnceUntilOneSucceeds) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "checkpoints";
  const std::string name = fmt::format("rubato.records-test-{}", getpid());
  Result<WorkerSegment> state = WorkerSegment::create(name, {.unit_bytes = {64}}, 1);
  ASSERT_TRUE(state.ok());
  remove_segment(name);
  auto opened = CheckpointFolder::open(folder, 2);
  ASSERT_TRUE(opened.ok());
  std::vector<std::string> told;
  BackgroundCheckpoint checkpoint(std::move(*opened),
                                  [&](const std::string& problem) { told.push_back(problem); });
  const auto write = [&](std::int64_t step) {
    checkpoint.begin(step, "about", *state, {});
    checkpoint.finish();
  };
  write(1);
  EXPECT_TRUE(told.empty());
  for (std::size_t round = 1; round <= 2; ++round) {
    std::filesystem::remove_all(folder);
    write(10);
    ASSERT_EQ(told.size(), round);
    EXPECT_NE(told.back().find("checkpoint-000000000010"), std::string::npos) << told.back();
    write(11);  // the same problem
    EXPECT_EQ(told.size(), round);
    std::filesystem::create_directory(folder);
    write(12);
    EXPECT_EQ(told.size(), round);
  }
}

TEST(JobDescriptions, MayDifferInTheLengthOfTheTrainingOnly) {
  const ProgramShape shape{.gradient_floats = 10, .unit_bytes = {40}, .private_bytes = 8};
  const DataOrder::Options data{.seed = 1, .samples = 100, .batch = 3};
  DataOrder::Options other = data;
  other.seed = 2;
  const std::string job = describe_job(shape, data, 100);
  EXPECT_TRUE(same_training(job, describe_job(shape, data, 2000)));
  EXPECT_FALSE(same_training(job, describe_job(shape, other, 100)));
  const std::string adaptive = describe_adaptive_job(shape, data, LrRule::kLinear, 100);
  EXPECT_TRUE(same_training(adaptive, describe_adaptive_job(shape, data, LrRule::kLinear, 7)));
  EXPECT_FALSE(same_training(adaptive, describe_adaptive_job(shape, data, LrRule::kSqrt, 100)));
  EXPECT_FALSE(same_training(adaptive, job));
  EXPECT_FALSE(same_training("a steps=x", "a"));
  EXPECT_TRUE(same_training("", ""));
}

}  // namespace
}  // namespace rubato::elastic
