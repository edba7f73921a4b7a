// The example of docs/writing-a-policy.md compiles and runs, and the page shows exactly this file.
#include <gtest/gtest.h>

#include "../examples/policies/equal_share.h"
#include "base/file.h"
#include "sched/scheduler.h"
#include "sim/simulator.h"
#include "test_paths.h"

namespace rubato {
namespace {

WorkloadJob elastic_job(std::size_t index, Seconds submit_s, Seconds duration_s) {
  WorkloadJob job;
  job.spec = {.id = JobId(index), .name = "job" + std::to_string(index), .submit_s = submit_s};
  job.spec.max_devices = 8;
  job.duration_s = duration_s;  // on one device
  return job;
}

TEST(ExamplePolicy, SharesEqually) {
  // Eight devices, perfect scaling. Alone, the first job has all eight. From 10 s on, both jobs
  // have four.
  Workload workload{.name = "two"};
  workload.jobs = {elastic_job(0, 0, 160), elastic_job(1, 10, 160)};
  SimOptions options;
  options.resize.stop_s = 0;
  options.law.exponent = 1;
  const auto result = simulate(*Cluster::parse("2x4"), workload, equal_share_policy(), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  // At 10 s, 80 of 160 device-seconds are done. The other 80 take 20 s on four devices.
  EXPECT_NEAR(result->jobs[0].finish_s, 30, 1e-6);
  // At 30 s, 80 are done. The other 80 take 10 s on eight devices.
  EXPECT_NEAR(result->jobs[1].finish_s, 40, 1e-6);
}

TEST(ExamplePolicy, ParameterCapsTheShare) {
  Workload workload{.name = "one"};
  workload.jobs = {elastic_job(0, 0, 100)};
  SimOptions options;
  options.resize.stop_s = 0;
  options.law.exponent = 1;
  options.settings = {{"most", "2"}};
  const auto result = simulate(*Cluster::parse("2x4"), workload, equal_share_policy(), options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_NEAR(result->jobs[0].finish_s, 50, 1e-6);
}

TEST(ExamplePolicy, ThePageShowsTheFile) {
  const std::string source(test_paths::kSourceTree);
  const auto page = read_file(source + "/docs/writing-a-policy.md");
  const auto code = read_file(source + "/examples/policies/equal_share.cpp");
  ASSERT_TRUE(page.ok() && code.ok());
  EXPECT_NE(page->find("```cpp\n" + *code + "```"), std::string::npos)
      << "docs/writing-a-policy.md differs from examples/policies/equal_share.cpp: run make docs";
}

}  // namespace
}  // namespace rubato
