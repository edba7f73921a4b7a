// Jobs of the toy program in a folder of their own, for tests with real processes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "elastic/job_runner.h"

namespace rubato::elastic {

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override {
    if (!HasFailure()) {
      std::filesystem::remove_all(root_);
    } else {
      ADD_FAILURE() << "files are kept in " << root_;
    }
  }

  // Steps of about 2 ms per logical worker.
  std::vector<std::string> toy(int workers, int logical, int steps,
                               std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--workers", std::to_string(workers), "--logical",
                                 std::to_string(logical)};
    all.insert(all.end(), more.begin(), more.end());
    for (const std::string& part :
         {std::string("--"), std::string(RUBATO_TOY_PROGRAM), std::string("--steps"),
          std::to_string(steps), std::string("--compute-us"), std::string("2000")}) {
      all.push_back(part);
    }
    return all;
  }
  std::unique_ptr<RunningJob> start(const std::string& name, std::vector<std::string> arguments) {
    return std::make_unique<RunningJob>(RUBATO_PROGRAM, root_ + "/" + name, std::move(arguments));
  }
  std::string undisturbed(int workers, int logical, int steps) {
    auto job =
        start(fmt::format("undisturbed-{}-{}", workers, logical), toy(workers, logical, steps));
    EXPECT_EQ(job->wait(), 0) << job->logs();
    return job->hash();
  }
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
  // What is wrong from now on with workers of jobs started by faulty_toy(): see toy_program.h.
  void set_fault(const std::string& what) const {
    ASSERT_TRUE(write_file(root_ + "/fault", what).ok());  // replaced at once
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
