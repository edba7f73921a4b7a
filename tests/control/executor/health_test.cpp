// What the daemon says about a job that hangs, is preempted, or cannot be started: a controller
// with real supervisors and workers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/file.h"
#include "control/controller.h"
#include "elastic/job_runner.h"
#include "test_paths.h"

namespace rubato::control {
namespace {

class JobHealth : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-health-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override {
    if (controller_) {
      for (const JobRecord& job : controller_->jobs(admin_, true, 0, 100)) {
        static_cast<void>(controller_->cancel(admin_, job.number));
      }
      EXPECT_TRUE(until([&] { return controller_->metrics().held == 0; })) << "processes are left";
    }
    controller_.reset();
    remove_tree(root_);
  }
  void start(int devices, const std::string& policy = "rubato") {
    auto started = Controller::start({.folder = root_ + "/state",
                                      .supervisor = test_paths::program("test_supervisor"),
                                      .machine = {.type = "toy", .devices = devices},
                                      .stall = {.at_least = 1}});
    ASSERT_TRUE(started.ok()) << started.error().message;
    controller_ = std::move(*started);
    ASSERT_TRUE(controller_->use_policy(admin_, policy, {}).ok());
  }
  static bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + elastic::kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  JobDocument toy(const std::string& name, int compute_us = 20000) const {
    JobDocument document;
    document.name = name;
    document.env["TOY_FAULT_FILE"] = root_ + "/fault";
    document.run = {test_paths::program("toy_train"), "--steps", "100000", "--compute-us",
                    std::to_string(compute_us)};
    document.min_devices = document.max_devices = 1;
    document.logical_workers = 1;
    return document;
  }
  void set_fault(const std::string& what) const {
    ASSERT_TRUE(write_file(root_ + "/fault", what).ok());
  }
  JobNumber submit(const JobDocument& document) {
    const Result<JobRecord> job = controller_->submit(admin_, document, "");
    EXPECT_TRUE(job.ok()) << job.error().message;
    return job.ok() ? job->number : 0;
  }
  JobRecord job(JobNumber number) const { return *controller_->job(admin_, number); }
  std::int64_t step(JobNumber number) const {
    return job(number).progress.value("step", std::int64_t{0});
  }
  int events(JobNumber number, const std::string& type) const {
    int count = 0;
    const auto all = controller_->events(admin_, 0, number, 10000, 0);
    for (const Event& event : *all) {
      count += event.type == type ? 1 : 0;
    }
    return count;
  }

  const Caller admin_{.tenant = "", .admin = true};
  std::string root_;
  std::unique_ptr<Controller> controller_;
};

// It looked healthy: running, `eta 0s`, `device time 0s`.
TEST_F(JobHealth, AJobThatHangsIsStalledUntilItGoesOn) {
  start(1);
  set_fault("");
  const JobNumber number = submit(toy("hangs"));
  ASSERT_TRUE(until([&] { return step(number) > 10 && job(number).progress.contains("eta_s"); }));
  set_fault("hang -1 0");
  // On a busy machine it may also seem to hang before, for a moment.
  JobRecord stalled;
  nlohmann::json why;
  ASSERT_TRUE(until([&] {
    stalled = job(number);
    why = *controller_->why(admin_, number);
    return stalled.stalled_since > 0 && why.value("code", "") == "stalled";
  }));
  EXPECT_EQ(stalled.phase, Phase::kRunning);
  EXPECT_FALSE(stalled.progress.contains("eta_s")) << stalled.progress;
  EXPECT_GT(stalled.device_s, 0.9);  // it holds its device, and has for longer than the pause
  EXPECT_NE(why.value("remedy", "").find("rubato logs j1"), std::string::npos) << why;
  EXPECT_NE(why.value("text", "").find("no step for"), std::string::npos) << why;
  set_fault("");
  ASSERT_TRUE(until([&] { return job(number).stalled_since == 0; }));
  const std::int64_t before = step(number);
  ASSERT_TRUE(until([&] { return step(number) > before; }));
  EXPECT_GE(events(number, "stalled"), 1);
  EXPECT_GE(events(number, "recovered"), 1);
}

TEST_F(JobHealth, AStalledJobThatIsPausedStartsAgainAndIsWell) {
  start(1);
  set_fault("");
  JobDocument document = toy("hangs");
  document.checkpoint_every_s = 0.1;
  const JobNumber number = submit(document);
  ASSERT_TRUE(until([&] { return step(number) > 10; }));
  set_fault("hang -1 0");
  ASSERT_TRUE(until([&] { return job(number).stalled_since > 0; }));
  ASSERT_TRUE(controller_->pause(admin_, number).ok());
  EXPECT_EQ(job(number).stalled_since, 0);
  set_fault("");
  ASSERT_TRUE(until([&] { return job(number).held == 0; }));
  ASSERT_TRUE(controller_->resume(admin_, number).ok());
  const std::int64_t before = step(number);
  ASSERT_TRUE(until([&] { return step(number) > before + 5 && job(number).stalled_since == 0; }));
}

TEST_F(JobHealth, AWaitingJobHasAnEndWhereTheModelKnowsOne) {
  start(1, "fifo");
  set_fault("");
  const JobNumber first = submit(toy("first"));
  ASSERT_TRUE(until([&] { return job(first).progress.contains("eta_s"); }));
  const JobNumber second = submit(toy("second"));  // the same program: its speed is known
  ASSERT_TRUE(until([&] { return job(second).progress.contains("eta_s"); }));
  const JobRecord waits = job(second);
  EXPECT_EQ(waits.phase, Phase::kQueued);
  EXPECT_EQ(waits.progress.value("eta_devices", 0), 1);
  EXPECT_GT(waits.progress.value("start_in_s", 0.0), 0);
  EXPECT_GT(waits.progress.value("eta_s", 0.0), waits.progress.value("start_in_s", 0.0));
  EXPECT_FALSE(job(first).progress.contains("start_in_s"));
}

TEST_F(JobHealth, DeviceTimeGrowsWhileAJobRuns) {
  start(1);
  set_fault("");
  const JobNumber number = submit(toy("runs"));
  ASSERT_TRUE(until([&] { return step(number) > 5; }));
  const double before = job(number).device_s;
  EXPECT_GT(before, 0);
  ASSERT_TRUE(until([&] { return job(number).device_s > before; }));
}

TEST_F(JobHealth, AProgramThatCannotBeStartedIsRefusedByItsPath) {
  start(1);
  const auto problem = [&](JobDocument document) {
    const Result<JobRecord> job = controller_->submit(admin_, std::move(document), "");
    return job.ok() ? std::string("accepted") : job.error().message;
  };
  JobDocument document = toy("missing");
  document.run[0] = "/no/such/program";
  EXPECT_EQ(problem(document), "run: cannot start /no/such/program: No such file or directory");
  document.run[0] = root_;
  EXPECT_EQ(problem(document), "run: cannot start " + root_ + ": Is a directory");
  document.run[0] = "./train";
  EXPECT_EQ(problem(document),
            "run: './train' is a relative path; give an absolute one, or set dir");
  document.dir = root_;
  EXPECT_NE(problem(document).find("cannot start " + root_ + "/train: No such file"),
            std::string::npos);
  ASSERT_TRUE(write_file(root_ + "/train", "").ok());
  EXPECT_NE(problem(document).find("cannot start " + root_ + "/train: Permission denied"),
            std::string::npos);
  std::filesystem::permissions(root_ + "/train", std::filesystem::perms::owner_all);
  EXPECT_EQ(problem(document), "accepted");
  document.run[0] = "train";
  EXPECT_NE(problem(document).find("no such program in PATH"), std::string::npos);
  document.env["PATH"] = root_;
  EXPECT_EQ(problem(document), "accepted");
  document.dir = "/no/such/folder";
  EXPECT_EQ(problem(document), "dir: cannot run in /no/such/folder: No such file or directory");
}

}  // namespace
}  // namespace rubato::control
