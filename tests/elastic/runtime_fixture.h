// Jobs of the toy program, each in a folder of its own, for tests with real processes.
//
// What a test observes must not depend on how busy the machine is. A job therefore takes minutes,
// in which a test can do whatever it wants, until finish() makes it hurry. Silent workers count as
// lost only in tests about that; elsewhere a worker that is not scheduled for a while would be
// mistaken for a failure. In every test, workers may be found slow at any time (straggler,
// recovered), and then logical workers move (views with the cause "rebalance").
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "elastic/job_runner.h"
#include "test_paths.h"

namespace rubato::elastic {

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    setenv("TOY_HURRY_FILE", hurry_file().c_str(), 1);
  }
  void TearDown() override {
    if (!HasFailure()) {
      std::filesystem::remove_all(root_);
    } else {
      ADD_FAILURE() << "files are kept in " << root_;
    }
  }

  // Steps take about 20 ms per logical worker.
  std::vector<std::string> toy(int workers, int logical, int steps,
                               std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"--workers", std::to_string(workers), "--logical", std::to_string(logical)});
    return with_program(std::move(more), steps);
  }
  // Options of `rubato run`, followed by the toy program.
  static std::vector<std::string> with_program(std::vector<std::string> options, int steps) {
    if (std::find(options.begin(), options.end(), "--failure-timeout") == options.end()) {
      options.insert(options.end(), {"--failure-timeout", "60"});
    }
    options.insert(options.end(), {"--", test_paths::program("toy_train"), "--steps",
                                   std::to_string(steps), "--compute-us", "20000"});
    return options;
  }
  std::unique_ptr<RunningJob> start(const std::string& name, std::vector<std::string> arguments) {
    std::filesystem::remove(hurry_file());
    return std::make_unique<RunningJob>(test_paths::program("rubato"), root_ + "/" + name,
                                        std::move(arguments));
  }
  // Ends the disturbance: the remaining steps take no time. Returns the exit code of the job.
  int finish(RunningJob& job) const {
    EXPECT_TRUE(write_file(hurry_file(), "").ok());
    return job.wait();
  }
  // The bits of the job if nobody disturbs it.
  std::string undisturbed(int workers, int logical, int steps) {
    auto job =
        start(fmt::format("undisturbed-{}-{}", workers, logical), toy(workers, logical, steps));
    EXPECT_EQ(finish(*job), 0) << job->logs();
    return job->hash();
  }
  std::string hurry_file() const { return root_ + "/hurry"; }
  static nlohmann::json view_event(const RunningJob& job, const std::string& cause) {
    for (const nlohmann::json& event : job.events()) {
      if (event.value("type", "") == "view" && event.value("cause", "") == cause) return event;
    }
    return nullptr;
  }

  static std::vector<nlohmann::json> events_of(const RunningJob& job, const std::string& type) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& event : job.events()) {
      if (event.value("type", "") == type) found.push_back(event);
    }
    return found;
  }
  // Sets the fault of workers of jobs started by faulty_toy() from now on: see toy_program.h.
  void set_fault(const std::string& what) const {
    ASSERT_TRUE(write_file(root_ + "/fault", what).ok());  // replaced atomically
  }
  std::vector<std::string> faulty_toy(int workers, int logical, int steps,
                                      std::vector<std::string> more = {}) const {
    std::vector<std::string> all = toy(workers, logical, steps, std::move(more));
    const auto program = std::find(all.begin(), all.end(), "--") + 1;
    all.insert(program, {"/usr/bin/env", "TOY_FAULT_FILE=" + root_ + "/fault"});
    return all;
  }

  std::string root_;
};

}  // namespace rubato::elastic
