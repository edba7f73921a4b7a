// A controller with real jobs: four devices unless a test starts it otherwise.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/controller.h"
#include "control/executor/executor_fixture.h"

namespace rubato::control {

class ControlledTest : public ExecutorTest {
 protected:
  void TearDown() override {
    if (controller_ == nullptr) start();
    for (const JobRecord& job : controller_->jobs(kAdmin, true, 0, 10'000)) {
      // One of them may end, or be cancelled with another, by itself.
      const Status cancelled = controller_->cancel(kAdmin, job.number);
      EXPECT_TRUE(cancelled.ok() || ended(this->job(job.number).phase));
    }
    EXPECT_TRUE(wait([&] { return controller_->cluster(kAdmin)["held"] == 0; }));
    controller_.reset();
    ExecutorTest::TearDown();
  }

  // Starts the daemon, or starts it again. Its jobs keep running in between.
  void start(Machine machine = {.devices = 4}) {
    controller_.reset();
    auto made = Controller::start({.folder = state(),
                                   .supervisor = options_.supervisor,
                                   .machine = std::move(machine),
                                   .time = time_});
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
  }
  std::string state() const { return root_ + "/state"; }

  JobRecord job(JobNumber number) const { return *controller_->job(kAdmin, number); }
  nlohmann::json why(JobNumber number) const { return *controller_->why(kAdmin, number); }
  std::string code(JobNumber number) const { return why(number)["code"]; }
  std::string text(JobNumber number) const { return why(number)["text"]; }
  std::vector<nlohmann::json> events(JobNumber number, const std::string& type) const {
    std::vector<nlohmann::json> found;
    const auto all = controller_->events(kAdmin, 0, number, 100'000, 0);
    for (const Event& event : *all) {
      if (event.type == type) found.push_back(event.body);
    }
    return found;
  }
  static bool wait(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  static inline const Caller kAdmin{.tenant = "", .admin = true, .address = "test"};
  TimeSource time_ = computer_time();
  std::unique_ptr<Controller> controller_;
};

}  // namespace rubato::control
